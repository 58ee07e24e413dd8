-- What all scripts about a session share. KEYS: the session, the index of its caller's sessions. ARGV: the id in that index,
-- how long a session lives unused and how much of that may pass before its life is extended, both in milliseconds.
--
-- A session is a hash: each number under "." and its name, "w" counts the writes of names of families (those with a colon),
-- "p" the other names. A number of a family is followed by a blank and the write that it was last part of. The index orders
-- ids by the millisecond at which they expire.
local session, index, id = KEYS[1], KEYS[2], ARGV[1]
local life, slack = tonumber(ARGV[2]), tonumber(ARGV[3])

local function text(number) return string.format('%.0f', number) end

local function now()
  local clock = redis.call('TIME')
  return clock[1] * 1000 + math.floor(clock[2] / 1000)
end

-- prolong lets the session live on from now. A server without memory extends lives all the same, if not in the index, which
-- comes right the next time.
local function prolong()
  local expires = now() + life
  redis.call('PEXPIREAT', session, text(expires))
  redis.pcall('ZADD', index, text(expires), id)
  if redis.call('PEXPIRETIME', index) < expires then redis.call('PEXPIREAT', index, text(expires)) end
end

-- alive tells whether there is such a session.
local left = redis.call('PTTL', session)
local function alive()
  if left == -2 then redis.call('ZREM', index, id) end
  return left ~= -2
end

-- used lets the session live on. A script that changes numbers does so at its end: a server without memory refuses only what a
-- script begins with.
local function used()
  if left < life - slack then prolong() end
end
