-- Limits by the hours, days, weeks or months of a time zone. Which these are the nodes say, as the
-- store has no zones: each rule has four times, at which three of them in a row begin and end, the
-- middle one being that of now by the node's idea of the store's clock. So which one it is, is the
-- store's to say. If it is none of them, the node knows the time from the answer, and asks again.
-- A caller is kept as doubles: begin and end of a period, and what is used in it.
local PERIOD = '<ddd'
local begins, ends, spent, unknown

local function calendar_keep(k)
	changed[k] = spent > 0 and to_bytes(PERIOD, begins, ends, spent)
	longer[k] = seconds_until(ends)
end

local function calendar_look_up(k, rule)
	local at, state = edges[rule], text_of(k)
	local n = now < at[2] and 1 or now < at[3] and 2 or 3
	unknown = now < at[1] or now >= at[4]
	n = unknown and 2 or n
	begins, ends, spent = at[n], at[n + 1], 0
	if not state then
		return
	end
	local from, till, was = from_bytes(PERIOD, state)
	if from == ends then
		begins, ends, spent = from, till, was -- the clock has gone back into the one before
	elseif from >= begins then
		spent = was -- or one further on: of a clock that was wrong
	elseif till > now and not unknown then
		spent = was -- or a longer one, by a limit that a reload has changed: all of it counts
		calendar_keep(k)
	end
end

local function calendar_missing(rule, cost)
	return unknown and 1 or spent + (cost > 0 and cost or 1) - quota[rule]
end

local function calendar_take(k, _, cost)
	spent = spent + cost
	calendar_keep(k)
	return begins
end

local function calendar_give(k, _, slot, cost)
	if slot == begins then
		spent = spent > cost and spent - cost or 0
		calendar_keep(k)
	end
end

local function calendar_time(rule, cost, missing)
	if unknown then
		return 1
	elseif missing > 0 and cost > quota[rule] then
		return -1
	end
	return (missing > 0 or spent > 0) and ends - now or 0
end

local calendar = {
	look_up = calendar_look_up, missing = calendar_missing, take = calendar_take, give = calendar_give,
	time = calendar_time, used = function() return spent end,
}
