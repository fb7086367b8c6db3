-- One act on the queue of one name, or on the value of that name; see recipes/stores/redis/keys.py for the keys.
--
-- K       what other programs SET NX: by its place in the queue a contender holds, and K says so until its deadline
-- Q, E    the tokens of the contenders, and of those of them that are no readers, in order of arrival
-- M       by token: "session id kind", d: deadline (ms), m: mark, v: version, o: owner, n: data; i:<id>: token;
--         last: the largest token; held: what K says
-- W       who listens: "<token> <session>" to one contender, "q <session>" to all that happens in the queue
local K, Q, E, M, W = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local act, queue, session, bell, ttl = ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
local call, time = redis.call, redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)
local starting = tonumber(ARGV[1]) - now_us  -- above 0: grants of the time before a restart may still be believed
local plain = string.byte(queue) ~= 126  -- not ~: a lock, whose key others may use
local READERS, DOWNGRADED, DAY = 'held-by-readers', 'downgraded', 86400000

local function whole(number) return string.format('%.0f', number) end

-- Together, so that no token is without its record; a queue of dead contenders that nobody looks at goes by this.
local function last_until(command, when) call(command, M, when); call(command, Q, when); call(command, E, when) end

local function add(id, kind, owner, data, last, held)
  local own = whole(math.max((tonumber(last) or 0) + 1, now_us))
  local fields = {own, session .. ' ' .. id .. ' ' .. kind, 'd' .. own, whole(now + ttl), 'i:' .. id, own, 'last', own}
  if held then fields[9], fields[10] = 'held', held end
  if owner ~= '' then fields[#fields + 1] = 'o' .. own; fields[#fields + 1] = owner end
  if data ~= '' then fields[#fields + 1] = 'n' .. own; fields[#fields + 1] = data end
  call('HSET', M, unpack(fields))
  call('ZADD', Q, own, own)
  if kind ~= 'R' then call('ZADD', E, own, own) end
  last_until('PEXPIREAT', whole(math.max(now, own / 1000) + DAY + ttl))
  return own
end

-- The two acts of a lock that nobody else wants, without what only others need.

if act == 'join' and starting <= 0 and call('EXISTS', Q, E, W, KEYS[6]) == 0 then
  local id, kind = ARGV[7], ARGV[8]
  local value = kind == 'R' and READERS or session .. '/' .. id
  if not plain or call('SET', K, value, 'PX', ttl, 'NX') then
    return {add(id, kind, ARGV[9], ARGV[10], call('HGET', M, 'last'), plain and value or nil), 0, -1, {}}
  end
elseif act == 'remove' and ARGV[8] ~= '' and ARGV[9] == '0' and call('EXISTS', W) == 0 then
  local id, token = ARGV[7], ARGV[8]
  local there = call('ZRANGE', Q, 0, 1)
  local got = there[1] == token and not there[2] and call('HMGET', M, 'i:' .. id, 'held')
  if got and got[1] == token and (not plain or (got[2] and redis.pcall('GET', K) == got[2])) then
    call('DEL', Q, E, plain and K or Q)
    call('HDEL', M, token, 'd' .. token, 'i:' .. id, 'm' .. token, 'v' .. token, 'o' .. token, 'n' .. token, 'held')
    return 1
  end
end

local granted, gone, held, foreign, missing = {}, {}, nil, nil, false

local function known(token)
  local got = call('HMGET', M, token, 'd' .. token, 'm' .. token, 'v' .. token)
  if not got[1] then return nil end
  local owner, id, kind = string.match(got[1], '^(%S+) (%S+) (.*)$')
  return {
    token = token, session = owner, id = id, kind = kind, till = tonumber(got[2]), mark = got[3] or '',
    version = tonumber(got[4] or 0), alone = kind ~= 'R' and got[3] ~= DOWNGRADED,
  }
end

local function ring(what, said)
  local from, to = '[' .. what .. ' ', '(' .. what .. '!'
  local listening = call('ZRANGEBYLEX', W, from, to)
  for _, one in ipairs(listening) do
    local who = string.sub(one, #what + 2)
    gone[who] = (gone[who] or '') .. ' ' .. said
  end
  if #listening > 0 then call('ZREMRANGEBYLEX', W, from, to) end
end

local function listen(what) call('ZADD', W, 0, what .. ' ' .. session); call('PEXPIRE', W, DAY) end

local function drop(one)
  local t = one.token
  call('ZREM', Q, t)
  if one.kind ~= 'R' then call('ZREM', E, t) end
  call('HDEL', M, t, 'd' .. t, 'i:' .. one.id, 'm' .. t, 'v' .. t, 'o' .. t, 'n' .. t)
  ring(t, 'g' .. t)
  ring('q', 'q')
end

-- A key of the queue may have been deleted, or evicted, by itself.
local function placed(one)
  return call('ZSCORE', Q, one.token) and (one.kind == 'R' or call('ZSCORE', E, one.token))
end

local function let_go()
  if not foreign then call('DEL', K) end
  call('HDEL', M, 'held')
  held = nil
end

-- The contenders that hold by their place: one that is alone, or readers, behind a writer that downgraded or nobody.
local function group()
  local found, at = {}, 0
  while true do
    local token = call('ZRANGE', Q, at, at)[1]
    local one = token and known(token)
    if not one or (at > 0 and one.kind ~= 'R') then return found end
    found[#found + 1], at = one, at + 1
    if one.alone then return found end
  end
end

local function in_group(one)
  local ahead = call('ZREVRANGEBYSCORE', E, '(' .. one.token, '-inf', 'LIMIT', 0, 1)[1]
  if one.kind ~= 'R' then return call('ZRANK', Q, one.token) == 0 end
  return not ahead or (call('ZRANK', Q, ahead) == 0 and not known(ahead).alone)
end

-- While the server starts, nobody comes to hold who would have K say so.
local function take_out(one)
  local last = starting > 0 and plain and held and in_group(one) and #group() == 1
  drop(one)
  if last then let_go() end
end

local function first()
  while true do
    local token = call('ZRANGE', Q, 0, 0)[1]
    local one = token and known(token)
    if not one or one.till > now then return one end
    drop(one)
  end
end

local function say(value, till) call('SET', K, value, 'PX', whole(math.max(till - now, 1))) end

-- K says who holds; a contender that comes to hold is notified. Nothing is granted while the server starts.
local function settle(joined)
  if starting > 0 then return end
  local head = first()
  if not plain or foreign then return end
  if not head then
    if held then let_go() end
    return
  end
  local value = head.alone and head.session .. '/' .. head.id or READERS
  if value == held then return end
  local till = 0
  for _, one in ipairs(group()) do
    till = math.max(till, one.till)
    if one.token ~= joined then granted[one.session] = (granted[one.session] or '') .. ' h' .. one.token end
  end
  say(value, till)
  call('HSET', M, 'held', value)
  held = value
end

-- K lasts as long as the longest of those that hold.
local function prolong(one)
  if not plain or foreign or not held or not in_group(one) then return end
  local till = one.alone and one.till or math.max(one.till, now + call('PTTL', K))
  say(held, till)
end

local function stranger() return '-' .. whole(tonumber(string.sub(redis.sha1hex(foreign), 1, 12), 16)) end

-- The nearest ahead that count, how many count, and in how many ms to look again whatever is notified.
local function view(own, exclusive_only, reach)
  local set, below = exclusive_only == '1' and E or Q, own and '(' .. own or '+inf'
  local near, rows, due
  repeat
    local again = false
    near, rows, due = call('ZREVRANGEBYSCORE', set, below, '-inf', 'LIMIT', 0, reach), {}, -1
    for i, token in ipairs(near) do
      local one = known(token)
      if one.till <= now then drop(one); again = true
      else
        rows[i] = {token, one.kind, one.session, one.id, one.mark, one.version}
        if due < 0 or one.till - now < due then due = one.till - now + 1 end
      end
    end
    if again then settle() end
  until not again
  local count = #near < reach and #near or call('ZCOUNT', set, '-inf', below)
  if foreign then
    count = count + 1
    if #rows < reach then
      if #rows == 0 then due = call('PTTL', K) end
      rows[#rows + 1] = {stranger(), 'W', '', '', '', 0}
    end
  end
  return {own or '', count, due, rows}
end

local acts, NONE = {}, {'', 0, -1, {}}

-- only_free: join only if fewer than so many that count are ahead, or the nearest has the mark let_in_by
function acts.join(id, kind, owner, data, exclusive_only, reach, arm, only_free, let_in_by)
  if call('EXISTS', KEYS[6]) == 1 then return {'withdrawn'} end
  reach = tonumber(reach)
  settle()
  local own = call('HGET', M, 'i:' .. id)
  local may_hold = own or kind == 'R'
  if own then
    call('HSET', M, 'd' .. own, whole(now + ttl))
  else
    if only_free ~= '' then
      local rows = view(nil, exclusive_only, reach)[4]
      if #rows >= tonumber(only_free) and (let_in_by == '' or rows[1][5] ~= let_in_by) then return NONE end
    end
    own = add(id, kind, owner, data, call('HGET', M, 'last'))
    settle(own)
    ring('q', 'q')
  end
  local seen = view(own, exclusive_only, reach)
  if may_hold then prolong(known(own)) end  -- behind the view, which drops a dead writer between readers
  for i = 1, math.min(tonumber(arm), #seen[4]) do
    local token, owner = seen[4][i][1], seen[4][i][3]
    if owner ~= session and string.byte(token) ~= 45 then listen(token) end
  end
  return seen
end

function acts.see(own, exclusive_only, reach, ...)
  settle()
  local one = known(own)
  if not one or one.session ~= session or one.till <= now then return NONE end
  for _, token in ipairs({...}) do
    if call('HEXISTS', M, token) == 1 then listen(token) end
  end
  local seen = view(own, exclusive_only, tonumber(reach))
  if one.kind == 'R' then prolong(one) end  -- behind the view, which drops a dead writer between readers
  return seen
end

-- What stands, of the own contender and pairs of a token and its mark (*: any); 1 for each that is as it was seen.
-- By one that has gone, and that it does not watch, a contender may hold: unless a stranger came ahead of all since.
function acts.present(watch, own, ...)
  settle()
  local one, found, pairs_ = known(own), {}, {...}
  found[1] = one and one.session == session and one.till > now and 1 or 0
  for i = 1, #pairs_, 2 do
    local token, mark = pairs_[i], pairs_[i + 1]
    local other = known(token)
    local there = other and other.till > now and (mark == '*' or mark == other.mark)
    if foreign and (watch ~= '1' or token == stranger()) then there = true
    elseif there and watch == '1' then listen(token) end
    found[#found + 1] = there and 1 or 0
  end
  if found[1] == 1 and one.kind == 'R' then prolong(one) end  -- beside the readers ahead, whose time may be up first
  return found
end

-- Renew contenders, each by its token or by i:<id>; 1 for each that stands
function acts.touch(...)
  local found = {}
  for i, asked in ipairs({...}) do
    local token = string.sub(asked, 1, 2) == 'i:' and call('HGET', M, asked) or asked
    local one = known(token)
    local stands = one and one.session == session and one.till > now and placed(one)
    if stands then
      one.till = now + ttl
      call('HSET', M, 'd' .. token, whole(one.till))
      prolong(one)
    end
    found[i] = stands and 1 or 0
  end
  settle()
  if call('PTTL', M) < DAY then last_until('PEXPIRE', DAY + ttl) end
  return found
end

function acts.remove(id, token, bury)
  if bury == '1' then call('SET', KEYS[6], 1, 'PX', 3600000) end
  if token == '' then token = call('HGET', M, 'i:' .. id) end
  local one = token and known(token)
  local mine = one and one.session == session and one.id == id
  if mine then take_out(one) end
  settle()
  return mine and 1 or 0
end

-- Another program may write the same value again: what arrives twice deletes once.
function acts.expel(token)
  if foreign and token == stranger() then
    if call('EXISTS', KEYS[6]) == 1 then return 0 end
    call('DEL', K)
    call('SET', KEYS[6], 1, 'PX', 3600000)
    return 1
  end
  local one = known(token)
  if one then take_out(one) end
  settle()
  return one and 1 or 0
end

-- version: which it must have now; ~N: if it is another, and not what is to be written, -version is the reply
function acts.rewrite(token, mark, data, version)
  local one = known(token)
  if not one or one.session ~= session or one.till <= now then return false end
  if string.byte(version) == 126 then
    if tonumber(string.sub(version, 2)) ~= one.version then
      local said = call('HGET', M, 'n' .. token) or ''
      return one.mark == mark and said == data and one.version or -one.version
    end
  elseif version ~= '' and tonumber(version) ~= one.version then return false end
  call('HSET', M, 'm' .. token, mark, 'n' .. token, data, 'v' .. token, one.version + 1)
  ring(token, 'c' .. token)
  ring('q', 'q')
  settle(token)
  return one.version + 1
end

function acts.list(most, watch)
  local rows, due
  repeat
    local again = false
    settle()
    rows, due = {}, -1
    if foreign then rows[1] = {stranger(), 'W', '', '', '', 0, '', ''}; due = call('PTTL', K) end
    for _, token in ipairs(missing and {} or call('ZRANGEBYSCORE', Q, '-inf', '+inf', 'LIMIT', 0, most - #rows)) do
      local one = known(token)
      if one.till <= now and starting <= 0 then drop(one); again = true
      else
        local said = call('HMGET', M, 'o' .. token, 'n' .. token)
        rows[#rows + 1] = {token, one.kind, one.session, one.id, one.mark, one.version, said[1] or '', said[2] or ''}
        local left = math.max(one.till - now, starting / 1000, 0)
        if due < 0 or left < due then due = math.floor(left) + 1 end
      end
    end
  until not again
  if watch == '1' then listen('q') end
  return {rows, due}
end

-- KEYS[6]: the value, a hash of data, version and last (which stays when the value is deleted)

local function stored()
  local got = call('HMGET', KEYS[6], 'data', 'version')
  return got[1], got[2] or '0'
end

function acts.get(watch)
  if watch == '1' then listen('q') end
  return {stored()}
end

-- KEYS[7]: the receipt; KEYS[8...]: M of the queue of each guard. Behind the other arguments there are its token,
-- and 1 if it must not have been rewritten.
function acts.put(settles, if_version, expected, receipt, deletes, data, ...)
  local guards, guarded = {...}, 1
  local got = redis.pcall('HMGET', KEYS[7], 'version', 'said')
  if got.err then return {'ended'} end  -- a text, which the end of the session has left
  local before, version = stored()
  for i = 1, #guards, 2 do
    local token, unchanged = guards[i], guards[i + 1] == '1'
    local guard = call('HMGET', KEYS[8 + (i - 1) / 2], token, 'd' .. token, 'v' .. token)
    local mine = guard[1] and string.find(guard[1], session .. ' ', 1, true) == 1
    if not mine or tonumber(guard[2]) <= now or (unchanged and guard[3]) then guarded = 0 end
  end
  local fits = settles == '1' or (guarded == 1 and (if_version == '' or if_version == version))
  if (got[1] or '0') ~= expected or not fits then
    return {0, got[1] or '0', got[2] or '', before, version, guarded}
  end
  local last = tonumber(call('HGET', KEYS[6], 'last') or 0)
  local own = whole(math.max(last + 1, (tonumber(got[1]) or 0) + 1, now_us))
  call('HSET', KEYS[7], 'version', own, 'said', receipt)
  call('PEXPIRE', KEYS[7], 3600000)
  if settles == '1' then return {1, own, receipt, before, version, guarded} end
  call('HSET', KEYS[6], 'last', own)
  if deletes == '1' then
    call('HDEL', KEYS[6], 'data', 'version')
    call('PEXPIREAT', KEYS[6], whole(math.max(now, own / 1000) + DAY))
    before, version = false, '0'
  else
    call('HSET', KEYS[6], 'data', data, 'version', own)
    call('PERSIST', KEYS[6])
    before, version = data, own
  end
  ring('q', 'q')
  return {1, own, receipt, before, version, guarded}
end

-- Who is looked for by `present` has gone, or its time is over: what renewed it may be lost, as may what took K.
local grants = act == 'join' or act == 'see' or (act == 'present' and ARGV[9]) or (act == 'put' and KEYS[8])
if starting > 0 and grants then
  return {'starting', math.ceil(starting / 1000)}
end
-- Once a run has written, Redis lets it go on with its memory used up: what is held can be renewed and released,
-- what waits be granted, and a value be deleted. A server that is a replica by now refuses.
local frees = act == 'put' and ARGV[11] == '1' and call('HEXISTS', KEYS[6], 'data') == 1
if frees or (act ~= 'join' and act ~= 'put' and (act ~= 'list' or ARGV[8] == '1')) then call('PEXPIRE', W, DAY) end
local of_value = act == 'get' or act == 'put'
missing = call('EXISTS', M) == 0  -- it was deleted, or evicted; or Q and E are another program's
if missing and not of_value then
  for _, key in ipairs({Q, E}) do
    local first = redis.pcall('ZRANGE', key, 0, 0, 'WITHSCORES')
    -- A token is its own score, and the time in microseconds when it was made.
    if first.err or first[1] ~= first[2] or (first[1] and #first[1] < 16) then
      if act == 'list' then return {{}, -1} end
      return redis.error_reply('WRONGTYPE ' .. key .. ' is of another program: give a prefix= of your own')
    elseif first[1] and act ~= 'list' then call('DEL', key) end
  end
end
held = call('HGET', M, 'held') or nil
if plain and not of_value then
  local seen = redis.pcall('GET', K)
  if type(seen) == 'table' then seen = 'a ' .. call('TYPE', K).ok end
  if held and seen ~= held and starting <= 0 then  -- it was deleted, taken over, or its time is up
    for _, one in ipairs(group()) do drop(one) end
    call('HDEL', M, 'held')
    held = nil
  end
  foreign = seen and seen ~= held and seen or nil
end
local reply = acts[act](unpack(ARGV, 7))
for who, what in pairs(granted) do gone[who] = what .. (gone[who] or '') end
for who, what in pairs(gone) do call('PUBLISH', bell .. who, queue .. what) end
return reply
