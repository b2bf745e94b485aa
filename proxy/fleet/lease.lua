#!lua name=sluice_lease_1
-- What the store does for limits of which nodes take a part in advance (fleet = lease): it gives
-- leases, takes back what was not used of them, and judges single requests, by its own clock. The
-- number in the names is as in judge.lua.
--
-- FCALL sluice_lease_1 N epoch-key caller-key... request known-epoch
--
-- The request is one MessagePack array of integers: 0; how long nodes of the fleet may be silent; how
-- many rules, and the rules, as in judge.lua, all of them rings that do not ban; then operations:
--   1 n (key rule cost slot units used keep want term epoch)*n
--                          judges a request by n limits: all costs are charged, or none. Before
--                          that, of the lease `slot` of that epoch (0: none) with so many units, a
--                          part has been used and a part is kept; the rest comes back. After it
--                          half of what is free, at most `want`, and what is kept are one
--                          lease, which ends `term` us from now. No lease of the limit is longer
--   2 key rule cost epoch since
--                          gives back something that was charged at this time or later, if that is
--                          less than a window ago: else it may count no more, and what would be
--                          taken away is others'
--   3 key rule cost        charges, whether it fits or not
-- The answer is one array, too: the time, the epoch; and for each operation 1 first 1 or 0, admitted
-- or not; then of each limit what is used or on lease, the lease's slot (0: none), how much of it is
-- kept, how much is new, a time (until the cost fits where it does not, or a lease ends, which may
-- return something; -1: never; else until something is free where nothing is, or all is free), and 1
-- or 0: the cost fits or not.
-- A limit that waits because the store has lost its memory, or may have (epoch.lua), is full until the
-- longest earlier lease has ended and its window has passed: nothing is charged, kept or given.
--
-- What is on lease until a time in slot k, [k q, (k + 1) q) where q is the quantum, may be used until
-- then, and so counts until (k + 1) q + window. What was used counts from when the store is told.
-- So all that is used in a trailing window is counted at its end, and that is never more than the
-- quota. A caller is kept as numbers of eight bytes: the quantum, then for each slot, oldest first,
-- the slot, what was used, and what is on lease until then.
local call, to_bytes, from_bytes, floor, ceil -- none of them is there while this is loaded

local kept, quantum, slots, used, leased, total, window_of, changed
local quota, window, grain, shadow, is_waiting
local now, epoch, lost, lease, format
local remember, waits, wait_after_loss -- epoch.lua

local function clear()
	quantum, slots, used, leased, total, window_of, changed = {}, {}, {}, {}, {}, {}, {}
	quota, window, grain, shadow, is_waiting = {}, {}, {}, {}, {}
end

-- The place of a slot, which is made where there is none.
local function place_of(k, slot)
	local s, at = slots[k], #slots[k]
	while at > 0 and s[at] > slot do
		at = at - 1
	end
	if at == 0 or s[at] < slot then
		at = at + 1
		table.insert(s, at, slot)
		table.insert(used[k], at, 0)
		table.insert(leased[k], at, 0)
	end
	return at
end

local function add(k, slot, uses, leases)
	local at = place_of(k, slot)
	used[k][at], leased[k][at] = used[k][at] + uses, leased[k][at] + leases
	total[k] = total[k] + uses + leases
	changed[k] = true
end

local function look_up(k, rule)
	local text, q = kept[k], grain[rule]
	window_of[k], quantum[k] = window[rule], q
	slots[k], used[k], leased[k], total[k] = {}, {}, {}, 0
	if not text then
		return
	end
	local before, ended, was = from_bytes('<d', text), now - window[rule], changed[k]
	for at = 9, #text - 1, 24 do
		local slot, uses, leases = from_bytes('<ddd', text, at)
		if before ~= q then
			slot = floor(((slot + 1) * before - 1) / q)
		end
		if (slot + 1) * q > ended and uses + leases > 0 then
			add(k, slot, uses, leases)
		end
	end
	changed[k] = was
end

local function find(k, slot)
	for at = #slots[k], 1, -1 do
		if slots[k][at] == slot then
			return at
		end
	end
end

-- What its node reports of a lease. Returns how much of it goes on.
local function settle(k, slot, units, uses, keeps)
	local at = find(k, slot)
	if not at or leased[k][at] < units then
		return 0
	end
	add(k, slot, 0, -units)
	local q = quantum[k]
	add(k, math.min(slot, floor(now / q)), uses, 0)
	return keeps
end

-- From the oldest on, so that what stays counted is never older than what it stands for; but not
-- past a lease that was never reported, whose uses may be older.
local function give_back(k, cost)
	for at = 1, #slots[k] do
		local taken = math.min(cost, used[k][at])
		used[k][at], total[k], cost = used[k][at] - taken, total[k] - taken, cost - taken
		changed[k] = true
		if cost == 0 or leased[k][at] > 0 then
			return
		end
	end
end

-- Until `missing` of what is used counts no more, or some lease ends.
local function time_to_free(k, rule, missing, is_whole)
	local q, w, first = quantum[k], window[rule], nil
	for at = 1, #slots[k] do
		local ends = (slots[k][at] + 1) * q - now
		missing = missing - used[k][at] - leased[k][at]
		if leased[k][at] > 0 and ends > 0 and not first and not is_whole then
			first = ends
		end
		if missing <= 0 then
			return first and math.min(first, ends + w) or ends + w
		end
	end
	return first or 0
end

local function time_of(k, rule, cost, missing)
	if missing > 0 then
		return cost > quota[rule] and -1 or time_to_free(k, rule, missing, false)
	elseif total[k] == 0 then
		return 0
	elseif total[k] >= quota[rule] then
		return time_to_free(k, rule, total[k] - quota[rule] + 1, false)
	end
	return time_to_free(k, rule, total[k], true)
end

-- A cost of 0 asks whether anything is free.
local function missing_for(k, rule, cost)
	if not total[k] then
		look_up(k, rule)
	end
	return total[k] + (cost > 0 and cost or 1) - quota[rule]
end

local FIELDS = 10

-- For how long the limit at this place of the request is full because of a loss, or false.
local function wait_of(request, at)
	local rule = request[at + 1]
	return is_waiting[rule] and wait_after_loss(window[rule] + request[at + 8])
end

-- What comes back of leases, before anything is judged. Returns how much goes on, by its place.
local function report(request, at, till)
	local keeps = {}
	for i = at, till, FIELDS do
		local k, slot = request[i], request[i + 3]
		missing_for(k, request[i + 1], 0)
		keeps[i] = 0
		if slot > 0 and request[i + 9] == epoch then
			local keep = wait_of(request, i) and 0 or request[i + 6]
			keeps[i] = settle(k, slot, request[i + 4], request[i + 5], keep)
			total[k] = total[k] + keeps[i] -- counted, until it has its new slot
		end
	end
	return keeps
end

local function give_lease(k, rule, keeps, want, term)
	local new = math.max(0, math.min(want, ceil((quota[rule] - total[k]) / 2)))
	local slot = keeps + new > 0 and floor((now + term) / quantum[k]) or 0
	total[k] = total[k] - keeps
	if slot > 0 then
		add(k, slot, 0, keeps + new)
	end
	return slot, new
end

local function ask(request, at, limits, answer, n)
	local till, admitted = at + FIELDS * limits - 1, 1
	local keeps = report(request, at, till)
	for i = at, till, FIELDS do
		local rule, cost = request[i + 1], request[i + 2]
		local fits = missing_for(request[i], rule, cost) <= 0 and not wait_of(request, i)
		if cost > 0 and not fits and not shadow[rule] then
			admitted = 0
		end
	end
	answer[n] = admitted
	for i = at, till, FIELDS do
		local k, rule, cost = request[i], request[i + 1], request[i + 2]
		local missing, wait = missing_for(k, rule, cost), wait_of(request, i)
		local fits = missing <= 0 and not wait
		if admitted == 1 and fits and cost > 0 then
			add(k, floor(now / quantum[k]), cost, 0)
		end
		local want = fits and request[i + 7] or 0
		local slot, new = give_lease(k, rule, keeps[i], want, request[i + 8])
		answer[n + 1], answer[n + 2], answer[n + 3] = total[k], slot, keeps[i]
		answer[n + 4], answer[n + 5] = new, time_of(k, rule, cost, missing)
		answer[n + 6] = fits and 1 or 0
		if wait then
			answer[n + 1] = math.max(total[k], quota[rule])
			answer[n + 5] = cost > quota[rule] and -1 or
				math.max(wait, missing > 0 and answer[n + 5] or 0)
		end
		n = n + 6
	end
	return till + 1, n + 1
end

local function operate(request, at, answer)
	local n, length = 3, #request
	while at <= length do
		local kind = request[at]
		if kind == 1 then
			at, n = ask(request, at + 2, request[at + 1], answer, n)
		elseif kind == 2 then
			local age = now - request[at + 5]
			missing_for(request[at + 1], request[at + 2], 0)
			if request[at + 4] == epoch and age >= 0 and age < window[request[at + 2]] then
				give_back(request[at + 1], request[at + 3])
			end
			at = at + 6
		else
			missing_for(request[at + 1], request[at + 2], 0)
			add(request[at + 1], floor(now / quantum[request[at + 1]]), request[at + 3], 0)
			at = at + 4
		end
	end
end

local function read_rules(request)
	local at = 4
	for i = 1, request[3] do
		local flags = request[at]
		shadow[i], is_waiting[i] = flags % 2 == 1, waits(flags)
		quota[i], window[i], grain[i] = request[at + 1], request[at + 2], request[at + 3]
		at = at + 4
	end
	return at
end

-- Two seconds more: what counts is dropped by the time above, never by the store's own.
local function save(keys)
	for k in pairs(changed) do
		local parts, last = { to_bytes('<d', quantum[k]) }, 0
		for at = 1, #slots[k] do
			if used[k][at] + leased[k][at] > 0 then
				last = slots[k][at]
				parts[#parts + 1] = to_bytes('<ddd', last, used[k][at], leased[k][at])
			end
		end
		if #parts == 1 then
			call('DEL', keys[k])
		else
			local left = (last + 1) * quantum[k] + window_of[k] - now
			call('SET', keys[k], table.concat(parts), 'EX',
				format('%.0f', ceil(left / 1000000) + 2))
		end
	end
end

local function run(keys, args)
	call, to_bytes, from_bytes = redis.call, struct.pack, struct.unpack
	floor, ceil, format = math.floor, math.ceil, string.format
	clear()
	local time, request = call('TIME'), cmsgpack.unpack(args[1])
	now = time[1] * 1000000 + time[2]
	kept, lease = call('MGET', unpack(keys)), request[2]
	remember(keys[1], args[2])
	local answer = { now, epoch }
	operate(request, read_rules(request), answer)
	save(keys)
	return cmsgpack.pack(answer)
end

redis.register_function('sluice_lease_1', run)
