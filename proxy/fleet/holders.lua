-- Limits of requests in flight. Each worker of a node is a holder, with a number of its own: what it
-- holds of a caller counts until its lease of that is over, which each of its operations on the
-- caller renews, and the node does while it holds any. So what a dead node held comes back. A holder
-- that was late (its node stood still) says what it holds with its next operation, and that counts
-- again, once. A caller is kept as doubles, three for each holder: its number, how many, until when.
--
-- A worker that has lost its connection has the next number, of CONNECTIONS that are one holder's.
-- Calls of the connection before may still arrive, with what was held then: of a caller that the
-- holder has spoken about since they charge nothing and change nothing.
local HOLD, HOLD_BYTES, CONNECTIONS = '<ddd', 24, 4096
local RETRY = 1000000 -- when one of them ends is nobody's knowledge
-- The holds of others as they are kept, until when; one's own, and the sum. A call of a connection
-- before is stale.
local others, latest, held, total, is_stale

local function holders_look_up(k)
	local state = text_of(k) or ''
	local rest, own = {}, floor(holder / CONNECTIONS)
	held, total, latest, is_stale = 0, 0, now + lease, false
	for at = 1, #state, HOLD_BYTES do
		local number, holds, till = from_bytes(HOLD, state, at)
		if till > now then
			total = total + holds
			local is_own = floor(number / CONNECTIONS) == own
			if is_own and number <= holder then
				held = held + holds
			else
				is_stale = is_stale or is_own
				rest[#rest + 1] = sub(state, at, at + HOLD_BYTES - 1)
				latest = till > latest and till or latest
			end
		end
	end
	others = table.concat(rest)
end

local function holders_missing(rule, cost)
	local missing = total + (cost > 0 and cost or 1) - quota[rule]
	return is_stale and missing < 1 and 1 or missing
end

local function holders_keep(k)
	if is_stale then
		return
	end
	changed[k] = others
	if held > 0 then
		changed[k] = others .. to_bytes(HOLD, holder, held, now + lease)
	end
	changed[k] = changed[k] ~= '' and changed[k]
	longer[k] = seconds_until(latest)
end

-- What the holder says that it holds: counts if nothing is known of it, or if it is settled, with no
-- question of the holder on its way.
local function hold(k, holds, settled)
	holders_look_up(k)
	if settled or held == 0 then
		total, held = total - held + holds, holds
	end
	holders_keep(k)
end

local function holders_take(k, _, cost)
	held, total = held + cost, total + cost
	holders_keep(k)
	return 1
end

local function holders_give(k, _, _, cost)
	local back = held < cost and held or cost
	held, total = held - back, total - back
	holders_keep(k)
end

local function holders_time(rule, cost, missing)
	return missing <= 0 and 0 or cost > quota[rule] and -1 or RETRY
end

local holders = {
	look_up = holders_look_up, missing = holders_missing, take = holders_take, give = holders_give,
	time = holders_time, used = function() return total end,
}
