#!lua name=sluice_relaxed_1
-- What the store does for limits that nodes judge by what all have told (fleet = relaxed): it adds up
-- what they publish, by its own clock. The number in the names is of what is called and what is kept,
-- as in judge.lua.
--
-- FCALL sluice_relaxed_1 N caller-key... request
--
-- The keys all differ. The request is one MessagePack array of integers: for each key the window and
-- the quantum, in microseconds, how much the node has admitted since it last said so, and how much of
-- what it said it has given back (both 0: it only asks). The answer is one array, too: for each key
-- what all nodes have admitted within the window, and in how many microseconds the oldest of that
-- counts no more (0: nothing counts).
--
-- What is published in slot k at a time in [k q, (k + 1) q), where q is the quantum, counts until
-- (k + 2) q + window: longer than in the table of the node that published it. What is given back is
-- taken from the oldest. A caller is kept as doubles: the quantum, then slots and counts, oldest
-- first.
local SLOT, SLOT_BYTES = '<dd', 16

-- What counts of a caller that is kept like this, in slots of a quantum: slots, counts and their sum.
local function read(text, q, window, now)
	local from_bytes, floor = struct.unpack, math.floor
	local slots, counts, total = {}, {}, 0
	local before = #text > 8 and from_bytes('<d', text) or q
	for at = 9, #text - 1, SLOT_BYTES do
		local slot, count = from_bytes(SLOT, text, at)
		slot = before == q and slot or floor(((slot + 1) * before - 1) / q)
		if (slot + 2) * q + window > now then
			local last = #slots
			if slots[last] == slot then
				counts[last] = counts[last] + count
			else
				slots[last + 1], counts[last + 1] = slot, count
			end
			total = total + count
		end
	end
	return slots, counts, total
end

local function write(key, q, window, now, slots, counts)
	local to_bytes = struct.pack
	local parts, last = {to_bytes('<d', q)}, nil
	for i = 1, #slots do
		if counts[i] > 0 then
			parts[#parts + 1], last = to_bytes(SLOT, slots[i], counts[i]), slots[i]
		end
	end
	if not last then
		redis.call('DEL', key)
		return
	end
	redis.call('SET', key, table.concat(parts), 'EX',
		string.format('%.0f', math.ceil(((last + 2) * q + window - now) / 1000000) + 2))
end

-- Adds to the newest slot, and takes from the oldest. Returns by how much the sum has changed.
local function change(slots, counts, slot, more, less)
	local last, left = #slots, less
	if more > 0 then
		slot = math.max(slot, slots[last] or 0)
		if slots[last] ~= slot then
			last = last + 1
			slots[last], counts[last] = slot, 0
		end
		counts[last] = counts[last] + more
	end
	for i = 1, last do
		local taken = math.min(left, counts[i])
		counts[i], left = counts[i] - taken, left - taken
	end
	return more - (less - left)
end

local function run(keys, args)
	local time, request = redis.call('TIME'), cmsgpack.unpack(args[1])
	local now = time[1] * 1000000 + time[2]
	local kept, answer = redis.call('MGET', unpack(keys)), {}
	for i = 1, #keys do
		local window, q, more, less = unpack(request, 4 * i - 3, 4 * i)
		local slots, counts, total = read(kept[i] or '', q, window, now)
		if more > 0 or (less > 0 and total > 0) then
			total = total + change(slots, counts, math.floor(now / q), more, less)
			write(keys[i], q, window, now, slots, counts)
		end
		local first = 1
		while counts[first] == 0 do
			first = first + 1
		end
		answer[2 * i - 1], answer[2 * i] = total, 0
		if slots[first] then
			answer[2 * i] = (slots[first] + 2) * q + window - now
		end
	end
	return cmsgpack.pack(answer)
end

redis.register_function('sluice_relaxed_1', run)
