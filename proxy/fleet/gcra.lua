-- Limits that space requests evenly (ITU-T I.371, virtual scheduling), `burst` at once. A caller is
-- kept as doubles: the time at which all that was charged has drained, in whole microseconds and a
-- part of one in quotas; how much was given back that was not charged last, in microseconds; the
-- quota and the window.
--
-- What is in use is counted in parts, of which a microsecond drains `quota`, and a charge of 1 adds
-- `window`: these are whole numbers. A charge has a place, when it has drained if nothing before it
-- is given back; less what was given back since, it is never later than the truth. So of an older
-- charge only what cannot have drained goes back, and the last one whole.
local STATE = '<ddddd'
local level, given, drains

-- Kept until no charge can be given back to it, which is later than it has drained.
local function gcra_keep(k, rule)
	local whole = floor(level / quota[rule])
	local part = level - whole * quota[rule]
	if part < 0 then
		whole, part = whole - 1, part + quota[rule]
	end
	drains = now + whole
	changed[k] = to_bytes(STATE, drains, part, given, quota[rule], window[rule])
	longer[k] = seconds_until(drains + burst[rule] * window[rule] / quota[rule])
end

-- Another rate than that it was kept by: as many requests as before are in use, in another time. No
-- charge has a place in that, so nothing of what was charged before can be given back.
local function change_rate(k, rule, before)
	given = given + (drains > now and drains - now or 0)
	level = ceil(level * window[rule] / before)
	gcra_keep(k, rule)
end

local function gcra_look_up(k, rule)
	local state = text_of(k)
	drains, level, given = now, 0, 0
	if state then
		local part, quota_before, window_before
		drains, part, given, quota_before, window_before = from_bytes(STATE, state)
		level = drains < now and 0 or (drains - now) * quota_before + part
		if quota_before ~= quota[rule] or window_before ~= window[rule] then
			change_rate(k, rule, window_before)
		end
	end
end

local function gcra_missing(rule, cost)
	return level + ((cost > 0 and cost or 1) - burst[rule]) * window[rule]
end

local function place()
	return drains + given + 1
end

local function gcra_take(k, rule, cost)
	level = level + cost * window[rule]
	gcra_keep(k, rule)
	return place()
end

local function gcra_give(k, rule, slot, cost)
	if not text_of(k) then
		return
	end
	local back, left = cost * window[rule], (slot - given - 1 - now) * quota[rule]
	if slot < place() then
		back = left < back and left or back
		back = back < 0 and 0 or back
		given = given + ceil(back / quota[rule])
	end
	level = level > back and level - back or 0
	gcra_keep(k, rule)
end

local function gcra_time(rule, cost, missing)
	if missing > 0 then
		return cost > burst[rule] and -1 or ceil(missing / quota[rule])
	end
	local over = level - (burst[rule] - 1) * window[rule]
	return ceil((over > 0 and over or level) / quota[rule])
end

local gcra = {
	look_up = gcra_look_up, missing = gcra_missing, take = gcra_take, give = gcra_give, time = gcra_time,
	used = function(rule) return ceil(level / window[rule]) end,
}
