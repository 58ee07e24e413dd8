-- Removes an entry, if it is there.
forget()
return 1
