-- Counts the entry that was set just before, in the same transaction, and makes room for it.
-- ARGV also: the bytes that it counts, the bytes of all together, when it was created and when it expires, in the caller's
-- microseconds, and the bytes that an entry counts beside those of its key.
local size, most = tonumber(ARGV[5]), tonumber(ARGV[6])
local expires = math.floor(serverTime(ARGV[8]) / 1000)
if drift ~= 0 then redis.call('SETRANGE', entry, 0, string.format('%020.0f', serverTime(ARGV[7]))) end
redis.call('PEXPIREAT', entry, text(expires))

-- Where the server gave up one index to save memory, both are made again from the other.
if redis.call('ZCARD', byExpiry) ~= math.max(redis.call('HLEN', sizes) - 1, 0) then
  local known = {}
  for _, other in ipairs(redis.call('ZRANGE', byExpiry, 0, -1)) do known[other] = true end
  for _, other in ipairs(redis.call('HKEYS', sizes)) do known[other] = other ~= 'total' end
  redis.call('DEL', byExpiry, sizes)
  local counted = 0
  for other, isEntry in pairs(known) do
    local at, length = redis.call('PEXPIRETIME', prefix .. other), redis.call('STRLEN', prefix .. other) + ARGV[9]
    if isEntry and at > 0 then
      redis.call('ZADD', byExpiry, text(at), other)
      redis.call('HSET', sizes, other, text(length))
      outlive(at)
      counted = counted + length
    end
  end
  redis.call('HSET', sizes, 'total', text(counted))
end

local sum = total() - drop({id}) + size
redis.call('ZADD', byExpiry, text(expires), id)
redis.call('HSET', sizes, id, text(size))

-- What has expired counts no more.
local milliseconds = math.floor(now / 1000)
while true do
  local gone = redis.call('ZRANGEBYSCORE', byExpiry, '-inf', text(milliseconds), 'LIMIT', 0, 500)
  if #gone == 0 then break end
  sum = sum - drop(gone)
end

-- What expires first gives way, never the new one.
while sum > most do
  local ids, values, freed = {}, {}, 0
  for _, other in ipairs(redis.call('ZRANGE', byExpiry, 0, 99)) do
    if sum - freed <= most then break end
    if other ~= id then
      ids[#ids + 1], values[#values + 1] = other, prefix .. other
      freed = freed + (tonumber(redis.call('HGET', sizes, other) or '0') or 0)
    end
  end
  if #ids == 0 then
    -- Nothing else is there: the sum was wrong.
    sum = size
    break
  end
  redis.call('UNLINK', unpack(values))
  sum = sum - drop(ids)
end
redis.call('HSET', sizes, 'total', text(math.max(sum, 0)))
outlive(expires)
return 1
