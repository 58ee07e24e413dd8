-- Changes when an entry expires. ARGV also: when, in the caller's microseconds. Answers 0 where there is no entry.
if redis.call('EXISTS', entry) == 0 then return 0 end
local expires = math.floor(serverTime(ARGV[5]) / 1000)
if expires * 1000 <= now then
  forget()
  return 1
end
local _, part = counted(redis.call('HGET', sizes, id))
-- A server without memory refuses these, and nothing is changed then.
redis.call('ZADD', byExpiry, 'XX', text(expires), id)
redis.call('ZADD', ofPart(part), 'XX', text(expires), id)
redis.call('PEXPIREAT', entry, text(expires))
outlive(expires, part)
return 1
