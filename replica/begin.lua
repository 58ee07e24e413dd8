-- Begins a session. ARGV also: how many the caller may have (0: any number), how long one must be unused to give way, and
-- what begins the keys of its sessions. Answers 0 where it has as many.
local most, unused, prefix = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
redis.call('HSET', session, 'w', '0', 'p', '0') -- the first of all, so that a server without memory refuses it
local time = now()
redis.call('ZREMRANGEBYSCORE', index, '-inf', text(time))
redis.call('ZREM', index, id) -- of the same attempt, made before
local over = most > 0 and redis.call('ZCARD', index) - most + 1 or 0
if over > 0 then
  local idle = redis.call('ZRANGEBYSCORE', index, '-inf', text(time + life - unused), 'LIMIT', 0, math.min(over, 1000))
  if #idle < over then
    redis.call('UNLINK', session)
    return 0
  end
  for _, other in ipairs(idle) do
    redis.call('UNLINK', prefix .. other)
    redis.call('ZREM', index, other)
  end
end
prolong()
return 1
