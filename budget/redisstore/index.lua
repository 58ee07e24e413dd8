-- What all scripts share. KEYS: the entry, the index by expiry, the index of sizes, the index of parts. ARGV: the prefix of
-- entries, the id of this entry, the caller's clock and the difference that counts as none, both in microseconds.
--
-- The index by expiry orders ids by the millisecond at which they expire, and so does for each part a key of its own that is
-- named after it (of:…). The index of sizes has the bytes that each id counts, with its part, and their sum under "total"; that
-- of parts orders them by the bytes that they have. A part is what of an entry's owner stands before the first colon. Ids are
-- 43 characters long, so that none is "total".
local entry, byExpiry, sizes, parts = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
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

local function ofPart(part) return prefix .. 'of:' .. part end

-- counted reads what the index of sizes has of an id: its bytes and its part; 0 and '' where it has nothing.
local function counted(size)
  local bytes, part = string.match(size or '', '^(%d+) ?(.*)$')
  return tonumber(bytes or '0'), part or ''
end

-- count takes an id that is not there into the index.
local function count(other, bytes, part, expires)
  redis.call('ZADD', byExpiry, text(expires), other)
  redis.call('ZADD', ofPart(part), text(expires), other)
  redis.call('HSET', sizes, other, text(bytes) .. ' ' .. part)
  redis.call('ZINCRBY', parts, text(bytes), part)
end

-- drop takes ids out of the index and gives the bytes that they counted.
local function drop(ids)
  local bytes, of = 0, {}
  for i, size in ipairs(redis.call('HMGET', sizes, unpack(ids))) do
    local n, part = counted(size)
    bytes = bytes + n
    of[part] = of[part] or {bytes = 0, ids = {}}
    of[part].bytes = of[part].bytes + n
    table.insert(of[part].ids, ids[i])
  end
  redis.call('ZREM', byExpiry, unpack(ids))
  redis.call('HDEL', sizes, unpack(ids))
  for part, own in pairs(of) do
    redis.call('ZREM', ofPart(part), unpack(own.ids))
    if tonumber(redis.call('ZINCRBY', parts, text(-own.bytes), part)) <= 0 then redis.call('ZREM', parts, part) end
  end
  return bytes
end

-- outlive makes the index live as long as its last entry, so that nothing is left behind.
local function outlive(milliseconds, part)
  for _, key in ipairs({byExpiry, sizes, parts, ofPart(part)}) do
    if redis.call('PEXPIRETIME', key) < milliseconds then redis.call('PEXPIREAT', key, text(milliseconds)) end
  end
end

-- forget removes this entry.
local function forget()
  redis.call('UNLINK', entry)
  local left = total() - drop({id})
  if redis.call('ZCARD', byExpiry) == 0 then
    redis.call('DEL', byExpiry, sizes, parts)
  else
    redis.call('HSET', sizes, 'total', text(math.max(left, 0)))
  end
end
