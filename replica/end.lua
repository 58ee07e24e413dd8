-- Ends a session, if there is one.
redis.call('UNLINK', session)
redis.call('ZREM', index, id)
return 1
