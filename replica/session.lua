-- What all scripts about a session share. KEYS: the session, two hashes of its names of families (those with a colon), the
-- index of its caller's sessions, the index of all sessions. ARGV: what begins the ids of the caller in the index of all, the
-- session's id, how long a session lives unused, and how much of that may pass before its life is extended, both in
-- milliseconds.
--
-- A session is a hash: each number under "." and its name, "p" counts them, "f" says which of the two hashes is written. The
-- indexes order ids by the millisecond at which they expire.
local session, families, index, everyone = KEYS[1], {[0] = KEYS[2], KEYS[3]}, KEYS[4], KEYS[5]
local own, id = ARGV[1], ARGV[2]
local life, slack = tonumber(ARGV[3]), tonumber(ARGV[4])

local function text(number) return string.format('%.0f', number) end

local function now()
  local clock = redis.call('TIME')
  return clock[1] * 1000 + math.floor(clock[2] / 1000)
end

-- placed puts an id into an index that lives as long as the last of its sessions.
local function placed(index, id, expires)
  redis.call('ZADD', index, text(expires), id)
  if redis.call('PEXPIRETIME', index) < expires then redis.call('PEXPIREAT', index, text(expires)) end
end

-- prolong lets the session live on from now. A server without memory extends lives all the same: it refuses only what a script
-- begins with.
local function prolong()
  local expires = now() + life
  for _, key in ipairs({session, families[0], families[1]}) do redis.call('PEXPIREAT', key, text(expires)) end
  placed(index, id, expires)
  placed(everyone, own .. id, expires)
end

local function forget()
  redis.call('UNLINK', session, families[0], families[1])
  redis.call('ZREM', index, id)
  redis.call('ZREM', everyone, own .. id)
end

-- alive tells whether there is such a session.
local left = redis.call('PTTL', session)
local function alive()
  if left == -2 then forget() end
  return left ~= -2
end

-- used lets the session live on. A script that changes numbers does so at its end.
local function used()
  if left < life - slack then prolong() end
end
