-- Reads numbers. ARGV also: their names. Answers 0 where there is no session, else 1 and the numbers.
if not alive() then return {0} end
used()
local answer = {1}
batches(5, #ARGV, 1000, function(first, last)
  local names = {unpack(ARGV, first, last)}
  local numbers = look(names)
  for i = 1, #names do answer[#answer + 1] = numbers[i] or 0 end
end)
return answer
