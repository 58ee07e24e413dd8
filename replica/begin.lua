-- Begins a session. ARGV also: how many the caller may have, how many all callers together (0: any number), how long one must
-- be unused to give way, and what begins the keys of sessions. Answers 1; 0 where the caller has as many, 2 where all have.
local most, all, unused, prefix = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8]
redis.call('HSET', session, 'p', '0') -- the first of all, so that a server without memory refuses it
local time = now()
for _, of in ipairs({index, everyone}) do redis.call('ZREMRANGEBYSCORE', of, '-inf', text(time)) end
redis.call('ZREM', index, id) -- of the same attempt, made before
redis.call('ZREM', everyone, own .. id)

-- Those that give way, by their ids in the index of all, and how many they are.
local leaving, count = {}, 0

-- idle marks the longest unused of an index, until over of them are marked; false where there are not so many. Where very many
-- are to go, since the bounds were lowered, each script makes a part of them go.
local function idle(of, before, over)
  if over <= 0 then return true end
  over = math.min(over, 1000)
  for _, other in ipairs(redis.call('ZRANGEBYSCORE', of, '-inf', text(time + life - unused), 'LIMIT', 0, over + count)) do
    if over <= 0 then break end
    if not leaving[before .. other] then
      leaving[before .. other], count, over = true, count + 1, over - 1
    end
  end
  return over <= 0
end

local full = nil
if most > 0 and not idle(index, own, redis.call('ZCARD', index) - most + 1) then full = 0 end
if not full and all > 0 and not idle(everyone, '', redis.call('ZCARD', everyone) - count - all + 1) then full = 2 end
if full then
  redis.call('UNLINK', session)
  return full
end
for other in pairs(leaving) do
  local its, name = string.match(other, '^({.*}:)(.*)$')
  redis.call('UNLINK', prefix .. other, prefix .. other .. ':0', prefix .. other .. ':1')
  redis.call('ZREM', prefix .. its .. 'sessions', name)
  redis.call('ZREM', everyone, other)
end
prolong()
return 1
