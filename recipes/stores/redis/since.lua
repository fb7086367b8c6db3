-- When a life of a server was first seen (us, by the clock of that server): what it granted before may be lost to it.
--
-- KEYS   when each life was first seen
-- ARGV   the life; what that server's clock says, which need not be the one that has the key
--
-- A moment in the future was noted before the clock was set back.
local since = redis.call('HGET', KEYS[1], ARGV[1])
if since and tonumber(since) <= tonumber(ARGV[2]) then return since end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return ARGV[2]
