-- When this life of the server was first seen (us, by its clock): what it granted before may be lost to it.
--
-- KEYS   when each life was first seen
-- ARGV   the life
--
-- A moment in the future was noted before the clock was set back.
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000000 + time[2])
local since = redis.call('HGET', KEYS[1], ARGV[1])
if not since or tonumber(since) > tonumber(now) then
  redis.call('HSET', KEYS[1], ARGV[1], now)
  since = now
end
return since
