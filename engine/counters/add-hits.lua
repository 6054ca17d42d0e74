-- Adds hits to many counters in one trip. Only a counter's first hit writes the expiry, which halves the work.
-- KEYS[i]   counter key               ARGV[2i-1]  hits to add, 0 to 2^53-1, decimal
-- returns   per key, KEYS order:      ARGV[2i]    expiry in seconds, 1 to 31,536,000 plus jitter
--           new count, or the text of the error that this key alone has met (wrong type, overflow near 2^63)
--
-- "First" is when the count after equals the hits added. Looking with 0 hits makes a counter too (as the reference
-- does) and finds the same 0 each time, so there TTL says whether the expiry is still missing. The first real hit after
-- such a look writes it once more. Both run in here, so no counter can be left without expiry.
-- Lua numbers are doubles: exact up to 2^53. A larger count is returned as 2^53-1, which means "over any limit"; the
-- counter in Redis keeps its true value, because INCRBY takes the hits as the text they came in.
local counts = {}
for i = 1, #KEYS do
  local key, text, expiry = KEYS[i], ARGV[2 * i - 1], ARGV[2 * i]
  local count = redis.pcall('INCRBY', key, text)
  if type(count) == 'table' then
    counts[i] = count.err -- text, since an error reply inside an array would end the whole call for some clients
  else
    if count == tonumber(text) and (count > 0 or redis.pcall('TTL', key) == -1) then
      redis.pcall('EXPIRE', key, expiry)
    end
    if count > 9007199254740991 then count = 9007199254740991 end
    counts[i] = count
  end
end
return counts
