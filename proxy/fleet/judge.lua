#!lua name=sluice_1
-- What the store does for sluice's fleet: it judges requests by limits over all nodes, as one
-- operation, by its own clock. The number in the names is of what is called and what is kept: who
-- changes either gives it another, so that nodes of two releases share a store, each with its own.
--
-- FCALL sluice_judge_1 N epoch-key caller-key... request
--
-- The keys all differ. The request is one MessagePack array of integers: how many rules there are;
-- for each its quota, window, quantum (both in microseconds) and 1 for a shadow limit; then
-- operations:
--   1 n (key rule cost)*n         judges n limits: all are charged, or none
--   2 key rule slot cost epoch    gives back what was charged in a slot of that epoch
--   3 key rule cost               charges, whether it fits or not
--   4 n (key rule cost)*n         judges and charges nothing
-- Keys and rules are counted from 1. The answer is one array, too: the time, the epoch; and for each
-- operation 1 or 4 first 1 or 0, admitted or not; then of each limit what is used, the slot of the
-- charge (0: none), and a time: until the cost fits where it does not (-1: never); else until
-- something is free where nothing is, or all is free.
--
-- What was charged in slot k at a time in [k q, (k + 1) q), where q is the quantum, counts until
-- (k + 1) q + window, so no trailing window ever holds more than the quota. Of a small quota the
-- quantum is 1 us, and so nothing is rounded. A caller is kept as numbers of eight bytes: quantum,
-- used, the newest slot and its count, the oldest slot; then the slots before the newest with their
-- counts, oldest first. So most verdicts read and write the first five.
--
-- An epoch is the time since when this store remembers: one that lost its memory has another.
local call, to_bytes, from_bytes, floor, ceil, sub -- none of them is there while this is loaded

local HEAD, HEAD_BYTES = '<ddddd', 40
local SLOT, SLOT_BYTES = '<dd', 16

-- Of the keys in use by this call, by their numbers; `first` is where in `bytes` the older slots
-- begin that count.
local kept, quantum, used, newest, count, oldest, bytes, first, window_of, changed
-- Of the rules.
local quota, window, grain, shadow
local now, epoch

local function clear()
	quantum, used, newest, count, oldest, bytes, first = {}, {}, {}, {}, {}, {}, {}
	window_of, changed = {}, {}
	quota, window, grain, shadow = {}, {}, {}, {}
end

-- Drops the older slots that do not count any more.
local function drop_older(k, ended)
	local text, at, q, left = bytes[k], first[k], quantum[k], used[k]
	local slot, cost = oldest[k], 0
	while at < #text do
		slot, cost = from_bytes(SLOT, text, at)
		if (slot + 1) * q > ended then
			break
		end
		left = left - cost
		at = at + SLOT_BYTES
	end
	if at > #text then
		slot = newest[k]
	end
	first[k], used[k], oldest[k] = at, left, slot
end

local function drop(k, rule)
	local ended, q = now - window[rule], quantum[k]
	if (oldest[k] + 1) * q > ended then
		return
	end
	if (newest[k] + 1) * q <= ended then
		used[k], count[k], bytes[k], first[k] = 0, 0, '', 1
	else
		drop_older(k, ended)
	end
end

local function add(k, slot, cost)
	if used[k] == 0 then
		oldest[k], newest[k], count[k], bytes[k], first[k] = slot, slot, 0, '', 1
	elseif slot > newest[k] then
		bytes[k] = sub(bytes[k], first[k]) .. to_bytes(SLOT, newest[k], count[k])
		first[k], newest[k], count[k] = 1, slot, 0
	end
	count[k] = count[k] + cost
	used[k] = used[k] + cost
	return newest[k]
end

-- Another rule than that it was kept by: each slot becomes the new one that its end lies in.
local function divide_anew(k, q)
	local text, at, before = bytes[k], first[k], quantum[k]
	local last, last_count = newest[k], count[k]
	quantum[k], used[k], count[k], bytes[k], first[k] = q, 0, 0, '', 1
	while at < #text do
		local slot, cost = from_bytes(SLOT, text, at)
		add(k, floor(((slot + 1) * before - 1) / q), cost)
		at = at + SLOT_BYTES
	end
	add(k, floor(((last + 1) * before - 1) / q), last_count)
end

local function look_up(k, rule)
	local text = kept[k]
	window_of[k] = window[rule]
	if not text then
		quantum[k], used[k], newest[k], count[k], oldest[k] = grain[rule], 0, 0, 0, 0
		bytes[k], first[k] = '', 1
		return
	end
	quantum[k], used[k], newest[k], count[k], oldest[k] = from_bytes(HEAD, text)
	bytes[k], first[k] = text, HEAD_BYTES + 1
	if quantum[k] ~= grain[rule] then
		divide_anew(k, grain[rule])
	end
	drop(k, rule)
end

-- Charged now; in the newest slot, if the clock has gone back behind that.
local function charge(k, cost)
	changed[k] = true
	return add(k, floor(now / quantum[k]), cost)
end

local function give_back(k, slot, cost)
	changed[k] = true
	if slot == newest[k] then
		cost = count[k] < cost and count[k] or cost
		count[k], used[k] = count[k] - cost, used[k] - cost
		return
	end
	local text = bytes[k]
	for at = first[k], #text - 1, SLOT_BYTES do
		local found, had = from_bytes(SLOT, text, at)
		if found == slot then
			cost = had < cost and had or cost
			bytes[k] = sub(text, 1, at - 1) .. to_bytes(SLOT, slot, had - cost)
				.. sub(text, at + SLOT_BYTES)
			used[k] = used[k] - cost
			return
		end
	end
end

-- Until `missing` of what is used counts no more.
local function time_to_free(k, rule, missing)
	local text, q, slot = bytes[k], quantum[k], newest[k]
	local at = first[k]
	while at < #text do
		local older, had = from_bytes(SLOT, text, at)
		missing = missing - had
		if missing <= 0 then
			slot = older
			break
		end
		at = at + SLOT_BYTES
	end
	return (slot + 1) * q + window[rule] - now
end

local function time_of(k, rule, cost, missing)
	if missing > 0 then
		return cost > quota[rule] and -1 or time_to_free(k, rule, missing)
	elseif used[k] == 0 then
		return 0
	elseif used[k] >= quota[rule] then
		return time_to_free(k, rule, used[k] - quota[rule] + 1)
	elseif count[k] == 0 then
		return time_to_free(k, rule, used[k])
	end
	return (newest[k] + 1) * quantum[k] + window[rule] - now
end

-- A cost of 0 asks whether anything is free.
local function missing_for(k, rule, cost)
	if not used[k] then
		look_up(k, rule)
	end
	return used[k] + (cost > 0 and cost or 1) - quota[rule]
end

local function ask(request, at, limits, takes, answer, n)
	local till, admitted = at + 3 * limits - 1, 1
	for i = at, till, 3 do
		local rule = request[i + 1]
		if missing_for(request[i], rule, request[i + 2]) > 0 and not shadow[rule] then
			admitted = 0
		end
	end
	answer[n] = admitted
	for i = at, till, 3 do
		local k, rule, cost, slot = request[i], request[i + 1], request[i + 2], 0
		local missing = missing_for(k, rule, cost)
		if takes and admitted == 1 and missing <= 0 and cost > 0 then
			slot = charge(k, cost)
		end
		answer[n + 1], answer[n + 2] = used[k], slot
		answer[n + 3] = time_of(k, rule, cost, missing)
		n = n + 3
	end
	return till + 1, n + 1
end

local function operate(request, at, answer)
	local n, length = 3, #request
	while at <= length do
		local kind = request[at]
		if kind == 1 or kind == 4 then
			at, n = ask(request, at + 2, request[at + 1], kind == 1, answer, n)
		elseif kind == 2 then
			missing_for(request[at + 1], request[at + 2], 0)
			if request[at + 5] == epoch then
				give_back(request[at + 1], request[at + 3], request[at + 4])
			end
			at = at + 6
		else
			missing_for(request[at + 1], request[at + 2], 0)
			charge(request[at + 1], request[at + 3])
			at = at + 4
		end
	end
end

local function read_rules(request)
	local at = 2
	for i = 1, request[1] do
		quota[i], window[i], grain[i] = request[at], request[at + 1], request[at + 2]
		shadow[i] = request[at + 3] == 1
		at = at + 4
	end
	return at
end

-- Two seconds more: what counts is dropped by the time above, never by the store's own.
local function save(keys)
	local texts = {}
	for k in pairs(changed) do
		if used[k] == 0 then
			call('DEL', keys[k])
		else
			local s = ceil(((newest[k] + 1) * quantum[k] + window_of[k] - now) / 1000000) + 2
			texts[s] = texts[s] or string.format('%.0f', s)
			call('SET', keys[k], to_bytes(HEAD, quantum[k], used[k], newest[k], count[k],
				oldest[k]) .. sub(bytes[k], first[k]), 'EX', texts[s])
		end
	end
end

local function judge(keys, args)
	call, to_bytes, from_bytes = redis.call, struct.pack, struct.unpack
	floor, ceil, sub = math.floor, math.ceil, string.sub
	clear()
	local time, request = call('TIME'), cmsgpack.unpack(args[1])
	now = time[1] * 1000000 + time[2]
	kept = call('MGET', unpack(keys))
	epoch = tonumber(kept[1])
	if not epoch then
		epoch = now
		call('SET', keys[1], string.format('%.0f', now))
	end
	local answer = { now, epoch }
	operate(request, read_rules(request), answer)
	save(keys)
	return cmsgpack.pack(answer)
end

redis.register_function('sluice_judge_1', judge)
