-- Ends a session, if there is one.
forget()
return 1
