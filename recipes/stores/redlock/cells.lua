-- One act on cells of one server, which has one vote; acts.py counts the votes.
--
-- KEYS   which life of the server this is, the restart_grace of all clients; then for each cell its key and its token
-- ARGV   the life as the connection knows it, the act, the grace (ms), the lease (ms), a number; a value for each cell
--
-- The number is a token to note, or that of a take among those of its session. A key has the value, '#', and the number
-- of the take that wrote it: what undoes a take, and arrives late, leaves alone what a later take of the same wrote.
--
-- The life is noted in what the server may forget: after a restart, and after FLUSHALL too, it is another one,
-- and the server grants nothing until what it granted before is over.
local life, act, grace, ttl, given = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local call, time = redis.call, redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local left_ms, found = 0, {}

local function whole(number) return string.format('%.0f', number) end

local function note(key, number)
  call('SET', key, whole(number))
  call('PEXPIREAT', key, whole(math.max(now_us, number) / 1000 + 86400000 + ttl))
end

local function parted(seen)
  local value, number = string.match(seen or '', '^(.*)#(%d+)$')
  return value or seen, tonumber(number or 0)
end

if grace > 0 then
  local known = call('HMGET', KEYS[1], 'run', 'since')
  local since = tonumber(known[2])
  if known[1] ~= life or since > now_us then
    since = now_us
    call('HSET', KEYS[1], 'run', life, 'since', whole(since))
  end
  left_ms = math.ceil((since - now_us) / 1000) + grace
end

if act == 'open' then
  call('SET', KEYS[2], ARGV[3], 'NX')
  return {call('GET', KEYS[2]), call('INFO', 'memory')}
end

for cell = 1, #ARGV - 5 do
  local key, last, value = KEYS[2 * cell + 1], KEYS[2 * cell + 2], ARGV[cell + 5]
  local seen = redis.pcall('GET', key)
  if type(seen) == 'table' then seen = 'a ' .. call('TYPE', key).ok end  -- Redisson's is a hash
  local held, number = parted(seen)
  if act == 'peek' then
    found[cell] = {held or '', call('PTTL', key)}
  elseif act == 'take' and left_ms > 0 then
    found[cell] = {-1, left_ms}
  elseif act == 'take' and seen and (held ~= value or number > given) then
    found[cell] = {0, held, call('PTTL', key)}
  elseif act == 'take' then
    local own = math.max((tonumber(call('GET', last) or 0)) + 1, now_us)
    call('SET', key, value .. '#' .. whole(given), 'PX', ttl)
    note(last, own)
    found[cell] = {1, whole(own)}
  elseif held ~= value or (act == 'drop' and given > 0 and number > given) then
    found[cell] = 0
  elseif act == 'note' then
    if tonumber(call('GET', last) or 0) < given then note(last, given) end
    found[cell] = 1
  elseif act == 'keep' then
    found[cell] = call('PEXPIRE', key, ttl)
  else
    found[cell] = call('DEL', key)
  end
end
return found
