-- Reads numbers. ARGV also: their names. Answers 0 where there is no session, else 1 and the numbers.
if not alive() then return {0} end
used()
local answer = {1}
batches(4, #ARGV, 1000, function(first, last)
  local fields = {}
  for i = first, last do fields[#fields + 1] = '.' .. ARGV[i] end
  for _, kept in ipairs(redis.call('HMGET', session, unpack(fields))) do answer[#answer + 1] = number(kept) end
end)
return answer
