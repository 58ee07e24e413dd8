-- What the scripts about numbers share. ARGV also, from the fifth on: what each script says.

-- batches calls do_ with the first and the last index of parts of a range that Lua can hand to a command.
local function batches(first, last, size, do_)
  for i = first, last, size do do_(i, math.min(i + size - 1, last)) end
end

-- Of the two hashes with names of families one is written, and the other has what was written before.
local written = tonumber(redis.call('HGET', session, 'f') or '0')

local function ofFamily(name) return string.find(name, ':', 1, true) end

-- look gives the numbers of names, nil where nothing is kept, and which of them stand in the older hash.
local function look(names)
  local numbers, older = {}, {}
  local function from(key, places) -- gives the places of what is not there
    if #places == 0 then return places end
    local fields, missing = {}, {}
    for n, i in ipairs(places) do fields[n] = '.' .. names[i] end
    for n, kept in ipairs(redis.call('HMGET', key, unpack(fields))) do
      if kept then numbers[places[n]] = tonumber(kept) else missing[#missing + 1] = places[n] end
    end
    return missing
  end
  local plain, family = {}, {}
  for i, name in ipairs(names) do
    local list = ofFamily(name) and family or plain
    list[#list + 1] = i
  end
  from(session, plain)
  local missing = from(families[written], family)
  from(families[1 - written], missing)
  for _, i in ipairs(missing) do older[i] = numbers[i] ~= nil end
  return numbers, older
end
