-- Adds the hits of a batch with STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT, for n keys:
-- KEYS[i]   counter key               ARGV[2i-1]   hits to add, 0 to 2^63-1, decimal
-- returns   per key, KEYS order:      ARGV[2i]     expiry in seconds, 1 to 31,536,000 plus jitter
--           the count before, or the  ARGV[2n+i]   limit
--           text of the key's error,  ARGV[3n+1]   a digit per key: 1 = tolerated
--           after "EXPIRE: " if its   ARGV[3n+1+r] last key of request r, counted from 1
--           hits were added
--
-- Requests are taken in order. Where a request would take counters over their limit, only those get its hits. The others get
-- 0, and their "count before" is their count minus the hits, possibly negative; otherwise it is 0 to 2^53-1, which also
-- stands for more. A request with a key that cannot be read adds nothing, unless the key is tolerated: then the others count.
--
-- Only a counter's first hit sets the expiry. Adding 0 hits creates a counter, too (as in envoyproxy/ratelimit), and returns 0
-- each time, so there TTL decides whether the expiry is missing. Lua numbers are doubles, so for many hits GET returns the
-- count before, which the sum would have rounded. INCRBY gets the hits as text, so the counter itself is always exact.
local EXACT = 4503599627370496 -- 2^52: below, sums of two such numbers lose nothing
local COUNT_MAX = 9007199254740991

local function negative(count)
  return 'its count is negative: ' .. string.format('%.0f', count)
end

local function add(i, text)
  local key, hits = KEYS[i], tonumber(text)
  local old = hits > EXACT and redis.pcall('GET', key)
  local count = redis.pcall('INCRBY', key, text)
  if type(count) == 'table' then
    return count.err -- as text: some clients fail the whole call for an error inside an array
  end
  local before = count - hits
  if hits > EXACT then before = tonumber(old or '0') end
  if before == 0 and (hits > 0 or redis.pcall('TTL', key) == -1) then
    local expiry = redis.pcall('EXPIRE', key, ARGV[2 * i])
    if type(expiry) == 'table' then return 'EXPIRE: ' .. expiry.err end -- such as a user without the right to it
  end
  if before < 0 then return negative(before) end
  return math.min(before, COUNT_MAX)
end

local befores, n = {}, #KEYS
local tolerated = ARGV[3 * n + 1]
local first = 1
for r = 3 * n + 2, #ARGV do
  local last = tonumber(ARGV[r])
  local counts, isOverLimit, isUnreadable = {}, false, false
  for i = first, last do
    local text = redis.pcall('GET', KEYS[i]) or '0'
    local count = type(text) == 'string' and tonumber(text)
    if not count or count < 0 then
      isUnreadable = isUnreadable or string.sub(tolerated, i, i) == '0'
      befores[i] = text.err or count and negative(count) or 'ERR value is not an integer or out of range'
    elseif count + tonumber(ARGV[2 * i - 1]) > tonumber(ARGV[2 * n + i]) then
      isOverLimit = true
    end
    counts[i] = count
  end
  for i = first, last do
    local text = ARGV[2 * i - 1]
    local hits = tonumber(text)
    if isUnreadable or befores[i] then
      befores[i] = befores[i] or counts[i] - hits
    elseif isOverLimit and counts[i] + hits <= tonumber(ARGV[2 * n + i]) then
      local count = add(i, '0')
      befores[i] = type(count) == 'number' and count - hits or count
    else
      befores[i] = add(i, text)
    end
  end
  first = last + 1
end
return befores
