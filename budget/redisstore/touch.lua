-- Changes when an entry expires. ARGV also: when, in the caller's microseconds. Answers 0 where there is no entry.
if redis.call('EXISTS', entry) == 0 then return 0 end
local expires = math.floor(serverTime(ARGV[5]) / 1000)
if expires * 1000 <= now then
  forget()
  return 1
end
redis.call('PEXPIREAT', entry, text(expires))
redis.call('ZADD', byExpiry, 'XX', text(expires), id)
outlive(expires)
return 1
