-- Counts the entry that was set just before, in the same transaction, and makes room for it. Answers 0, and has removed the
-- entry, where it takes more than half of all and others have entries too.
-- ARGV also: the bytes that it counts, the bytes of all together, when it was created and when it expires, in the caller's
-- microseconds, the bytes that an entry counts beside those of its key, and those of an entry before its owner, which end with
-- the owner's length, as where it begins says.
local size, most = tonumber(ARGV[5]), tonumber(ARGV[6])
local expires = math.floor(serverTime(ARGV[8]) / 1000)
if drift ~= 0 then redis.call('SETRANGE', entry, 0, string.format('%020.0f', serverTime(ARGV[7]))) end
redis.call('PEXPIREAT', entry, text(expires))

-- partOf reads the part in an entry.
local function partOf(key)
  local at, header = tonumber(ARGV[10]), tonumber(ARGV[11])
  local head = redis.call('GETRANGE', key, 0, header + 255)
  if #head < header then return '' end
  local length = head:byte(at + 1) + 256 * head:byte(at + 2)
  return string.match(head:sub(header + 1, header + length), '^[^:]*')
end

-- Where the server gave up a part of the index to save memory, it is made again from the rest.
local ordered = redis.call('ZCARD', byExpiry)
if ordered ~= math.max(redis.call('HLEN', sizes) - 1, 0) or ordered > 0 and redis.call('ZCARD', parts) == 0 then
  local known = {}
  for _, other in ipairs(redis.call('ZRANGE', byExpiry, 0, -1)) do known[other] = true end
  for _, other in ipairs(redis.call('HKEYS', sizes)) do known[other] = other ~= 'total' end
  redis.call('DEL', byExpiry, sizes, parts)
  local sum = 0
  for other, isEntry in pairs(known) do
    local at, length = redis.call('PEXPIRETIME', prefix .. other), redis.call('STRLEN', prefix .. other) + ARGV[9]
    if isEntry and at > 0 then
      local part = partOf(prefix .. other)
      count(other, length, part, at)
      outlive(at, part)
      sum = sum + length
    end
  end
  redis.call('HSET', sizes, 'total', text(sum))
end

local sum = total() - drop({id}) + size
local part = partOf(entry)
count(id, size, part, expires)
outlive(expires, part)

-- What has expired counts no more.
local milliseconds = math.floor(now / 1000)
while true do
  local gone = redis.call('ZRANGEBYSCORE', byExpiry, '-inf', text(milliseconds), 'LIMIT', 0, 500)
  if #gone == 0 then break end
  sum = sum - drop(gone)
end

if size > most / 2 and redis.call('ZCARD', parts) > 1 then
  redis.call('HSET', sizes, 'total', text(math.max(sum, 0)))
  forget()
  return 0
end

-- give lets the first ones of an order go, but never the new one, until all fit, or more than so many bytes are gone. It
-- answers false where there is nothing to let go of.
local function give(order, enough)
  local ids, values, freed = {}, {}, 0
  for _, other in ipairs(redis.call('ZRANGE', order, 0, 99)) do
    if sum - freed <= most or freed > enough then break end
    if other ~= id then
      ids[#ids + 1], values[#values + 1] = other, prefix .. other
      freed = freed + counted(redis.call('HGET', sizes, other))
    end
  end
  if #ids == 0 then return false end
  redis.call('UNLINK', unpack(values))
  redis.call('ZREM', order, unpack(ids))
  sum = sum - drop(ids)
  return true
end

-- Of the part that has most what expires first gives way, until it has as much as the next, or its share of what is too much:
-- parts that have about as much as each other would take turns by single entries. When the new one alone is left of its part,
-- it is the others' turn.
local spared = false
while sum > most do
  local two = redis.call('ZRANGE', parts, -2, -1, 'WITHSCORES')
  local largest, has = two[#two - 1], tonumber(two[#two] or '0')
  if not largest then break end
  local more = has - tonumber(#two == 4 and two[2] or '0')
  if not give(ofPart(largest), math.max(more, (sum - most) / redis.call('ZCARD', parts))) then
    spared = spared or largest == part
    redis.call('ZREM', parts, largest)
  end
end
if spared then redis.call('ZADD', parts, text(size), part) end

-- What no part has any more, because the server gave up its order, goes by expiry alone.
while sum > most do
  if not give(byExpiry, sum) then sum = size end -- nothing else is there: the sum was wrong
end
redis.call('HSET', sizes, 'total', text(math.max(sum, 0)))
outlive(expires, part)
return 1
