-- What the scripts about numbers share. ARGV also, from the fourth on: what each script says.

-- number is the number in what is kept of one; 0 where nothing is.
local function number(kept) return kept and tonumber(string.match(kept, '^%d+')) or 0 end

-- batches calls do_ with the first and the last index of parts of a range that Lua can hand to a command.
local function batches(first, last, size, do_)
  for i = first, last, size do do_(i, math.min(i + size - 1, last)) end
end
