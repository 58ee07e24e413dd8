-- What all scripts share. KEYS: the entry, the index by expiry, the index of sizes. ARGV: the prefix of entries, the id of
-- this entry, the caller's clock and the difference that counts as none, both in microseconds.
--
-- The index by expiry orders ids by the millisecond at which they expire; the index of sizes has the bytes that each id
-- counts and their sum under "total". Ids are 43 characters long, so that none is "total".
local entry, byExpiry, sizes = KEYS[1], KEYS[2], KEYS[3]
local prefix, id = ARGV[1], ARGV[2]
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local function text(number) return string.format('%.0f', number) end

-- serverTime gives the server's microsecond for one of the caller's. Clocks that agree to the tolerance count as equal:
-- the time that a command was on its way is no difference of clocks.
local drift = now - ARGV[3]
if math.abs(drift) <= tonumber(ARGV[4]) then drift = 0 end
local function serverTime(callers) return callers + drift end

local function total() return tonumber(redis.call('HGET', sizes, 'total') or '0') or 0 end

-- drop takes ids out of the index and gives the bytes that they counted.
local function drop(ids)
  local bytes = 0
  for _, size in ipairs(redis.call('HMGET', sizes, unpack(ids))) do
    bytes = bytes + (tonumber(size or '0') or 0)
  end
  redis.call('ZREM', byExpiry, unpack(ids))
  redis.call('HDEL', sizes, unpack(ids))
  return bytes
end

-- outlive makes the index live as long as its last entry, so that nothing is left behind.
local function outlive(milliseconds)
  for i = 2, 3 do
    if redis.call('PEXPIRETIME', KEYS[i]) < milliseconds then redis.call('PEXPIREAT', KEYS[i], text(milliseconds)) end
  end
end

-- forget removes this entry.
local function forget()
  redis.call('UNLINK', entry)
  local left = total() - drop({id})
  if redis.call('ZCARD', byExpiry) == 0 then
    redis.call('DEL', byExpiry, sizes)
  else
    redis.call('HSET', sizes, 'total', text(math.max(left, 0)))
  end
end
