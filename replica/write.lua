-- Changes numbers. ARGV also: add or raise, how many names of families are kept for certain and how many others at the most,
-- the largest number, and pairs of a name and a number. Answers 0 where there is no session, 2 where there would be too many
-- names of no family, else 1 and the last number.
if not alive() then return {0} end
local add, kept, others, largest = ARGV[5] == 'add', tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local fresh, plain, family, last = 0, {}, {}, 0

-- change notes what becomes of one name. One of a family that is found in the older hash is written anew in any case: it is
-- in use.
local function change(name, before, older, n)
  last = math.min(add and (before or 0) + n or math.max(before or 0, n), largest)
  if last == (before or 0) and not older then return end
  if not before and not ofFamily(name) then fresh = fresh + 1 end
  local list = ofFamily(name) and family or plain
  list[#list + 1] = '.' .. name
  list[#list + 1] = text(last)
end

batches(9, #ARGV, 2000, function(first, final)
  local names = {}
  for i = first, final, 2 do names[#names + 1] = ARGV[i] end
  local numbers, older = look(names)
  for i, name in ipairs(names) do change(name, numbers[i], older[i], tonumber(ARGV[first + 2 * i - 1])) end
end)

if fresh > 0 then
  if tonumber(redis.call('HGET', session, 'p') or '0') + fresh > others then return {2} end
  redis.call('HINCRBY', session, 'p', fresh)
end
if #plain > 0 then batches(1, #plain, 2000, function(first, final) redis.call('HSET', session, unpack(plain, first, final)) end) end

-- A hash that is full becomes the older one, and what is older yet is forgotten: that costs the same however much there is.
if #family > 0 then
  local key = families[written]
  batches(1, #family, 2000, function(first, final) redis.call('HSET', key, unpack(family, first, final)) end)
  redis.call('PEXPIREAT', key, text(redis.call('PEXPIRETIME', session)))
  if redis.call('HLEN', key) >= kept then
    redis.call('UNLINK', families[1 - written])
    redis.call('HSET', session, 'f', text(1 - written))
  end
end
used()
return {1, last}
