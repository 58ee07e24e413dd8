-- Changes numbers. ARGV also: add or raise, how many names of families are kept and how many others, the largest number, and
-- pairs of a name and a number. Answers 0 where there is no session, 2 where there would be too many names of no family,
-- else 1 and the last number.
if not alive() then return {0} end
local add, families, others, largest = ARGV[4] == 'add', tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local write, fresh, changed, last = nil, 0, {}, 0

-- change notes what becomes of one field.
local function change(field, kept, n)
  local before = number(kept)
  last = math.min(add and before + n or math.max(before, n), largest)
  if last == 0 then return end
  if string.find(field, ':', 1, true) then
    write = write or redis.call('HINCRBY', session, 'w', 1)
    changed[#changed + 1] = {field, text(last) .. ' ' .. text(write)}
  elseif last > before then
    if not kept then fresh = fresh + 1 end
    changed[#changed + 1] = {field, text(last)}
  end
end

batches(8, #ARGV, 2000, function(first, final)
  local fields = {}
  for i = first, final, 2 do fields[#fields + 1] = '.' .. ARGV[i] end
  local kept = redis.call('HMGET', session, unpack(fields))
  for i, field in ipairs(fields) do change(field, kept[i], tonumber(ARGV[first + 2 * i - 1])) end
end)

if fresh > 0 then
  if number(redis.call('HGET', session, 'p')) + fresh > others then return {2} end
  redis.call('HINCRBY', session, 'p', fresh)
end
batches(1, #changed, 1000, function(first, final)
  local pairs_ = {}
  for i = first, final do
    pairs_[#pairs_ + 1] = changed[i][1]
    pairs_[#pairs_ + 1] = changed[i][2]
  end
  redis.call('HSET', session, unpack(pairs_))
end)

-- Where there are too many names of families, those go that were not written for longest, a quarter at a time.
local over = redis.call('HLEN', session) - 2 - number(redis.call('HGET', session, 'p')) - families
if over > 0 then
  over = over + math.floor(families / 4)
  local all, count, stamps = redis.call('HGETALL', session), {}, {}
  for i = 2, #all, 2 do
    local stamp = tonumber(string.match(all[i], ' (%d+)$'))
    if stamp then
      if not count[stamp] then stamps[#stamps + 1] = stamp end
      count[stamp] = (count[stamp] or 0) + 1
    end
  end
  table.sort(stamps)
  local gone, left = {}, over
  for _, stamp in ipairs(stamps) do
    if left <= 0 then break end
    gone[stamp] = math.min(count[stamp], left)
    left = left - gone[stamp]
  end
  local fields = {}
  for i = 2, #all, 2 do
    local stamp = tonumber(string.match(all[i], ' (%d+)$'))
    if stamp and (gone[stamp] or 0) > 0 then
      gone[stamp] = gone[stamp] - 1
      fields[#fields + 1] = all[i - 1]
    end
  end
  batches(1, #fields, 1000, function(first, final) redis.call('HDEL', session, unpack(fields, first, final)) end)
end
used()
return {1, last}
