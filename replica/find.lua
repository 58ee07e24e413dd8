-- Looks for a session. Answers 0 where there is none.
if not alive() then return 0 end
used()
return 1
