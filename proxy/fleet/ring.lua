-- Limits by a sliding window. What was charged in slot k at a time in [k q, (k + 1) q), where q is the
-- quantum, counts until (k + 1) q + window, so no trailing window ever holds more than the quota. Of
-- a small quota the quantum is 1 us, and so nothing is rounded. A caller is kept as doubles: quantum,
-- used, the newest slot and its count, the oldest slot, the time until which it is kept; then the
-- slots before the newest with their counts, oldest first. So most verdicts read the first six, and
-- write the three that follow the quantum.
local HEAD, HEAD_BYTES = '<dddddd', 48
local MIDDLE, MIDDLE_FROM, MIDDLE_TILL = '<ddd', 8, 32
local SLOT, SLOT_BYTES = '<dd', 16
local LONGER_MOST = 60000000

-- Of the keys that this call has changed: the first numbers (false: nothing is used any more), and
-- the older slots, which are in `texts` from `firsts` on and then in `mores`. Without a text these are
-- as they were kept, but for a key in `longer`, which has none. `middles` has the three numbers for
-- the answer; without a head they are all that has changed but for older slots. Between calls the
-- tables are empty, but have room: to let them grow with each call costs as much as half of its
-- verdicts.
local heads, texts, firsts, mores, middles
local ROOM = 600

local function make_tables()
	heads, texts, firsts, mores, middles, longer = {}, {}, {}, {}, {}, {}
	for _, made in ipairs({ heads, texts, firsts, mores, middles, longer }) do
		for k = 1, ROOM do
			made[k] = false
		end
		for k = 1, ROOM do
			made[k] = nil
		end
	end
end

-- The caller that is looked at; its older slots are in `text` from `first` on, and then in `more`.
-- Lua hashes each string that is made, byte by byte: long ones are made when they must be.
local quantum, used, newest, count, oldest, lives, text, first, more

local function flatten()
	if more ~= '' then
		text, first, more = sub(text, first) .. more, 1, ''
	end
end

-- Drops the slots that do not count any more.
local function drop(ended)
	if (newest + 1) * quantum <= ended then
		used, count, text, first, more = 0, 0, '', 1, ''
		return
	end
	flatten()
	local at, length, slot, cost = first, #text, oldest, 0
	while at < length do
		slot, cost = from_bytes(SLOT, text, at)
		if (slot + 1) * quantum > ended then
			break
		end
		used = used - cost
		at = at + SLOT_BYTES
	end
	if at > length then
		slot = newest
	end
	first, oldest = at, slot
end

local function add(slot, cost)
	if used == 0 then
		oldest, newest, count, text, first, more = slot, slot, 0, '', 1, ''
	elseif slot > newest then
		more = more .. to_bytes(SLOT, newest, count)
		newest, count = slot, 0
	end
	count = count + cost
	used = used + cost
	return newest
end

-- Another rule than that it was kept by: each slot becomes the new one that its end lies in.
local function change_quantum(q)
	flatten()
	local older, at, before = text, first, quantum
	local last, last_count = newest, count
	quantum, used, count, text, first, more = q, 0, 0, '', 1, ''
	while at < #older do
		local slot, cost = from_bytes(SLOT, older, at)
		add(floor(((slot + 1) * before - 1) / q), cost)
		at = at + SLOT_BYTES
	end
	add(floor(((last + 1) * before - 1) / q), last_count)
end

-- The first six numbers of a caller that the call has changed; nil: it has not.
local function head_of(k)
	if heads[k] == nil and middles[k] then
		return sub(kept[k], 1, MIDDLE_FROM) .. middles[k] .. sub(kept[k], MIDDLE_TILL + 1, HEAD_BYTES)
	end
	return heads[k]
end

local function ring_look_up(k, rule)
	local head = head_of(k)
	if head then
		text, first, more = texts[k], firsts[k], mores[k]
		if not text and longer[k] then
			text, first, more = '', 1, ''
		elseif not text then
			text, first, more = kept[k], HEAD_BYTES + 1, more or ''
		end
		quantum, used, newest, count, oldest, lives = from_bytes(HEAD, head)
	else
		text, more = head == nil and kept[k], ''
		if not text then
			if text == nil then
				error('an operation names a key that the call has not')
			end
			quantum, used, newest, count, oldest, lives = grain[rule], 0, 0, 0, 0, 0
			text, first = '', 1
			return
		end
		quantum, used, newest, count, oldest, lives, first = from_bytes(HEAD, text)
	end
	if quantum ~= grain[rule] then
		change_quantum(grain[rule])
	end
	local ended = now - window[rule]
	if (oldest + 1) * quantum <= ended then
		drop(ended)
	end
end

-- What counts is dropped by the time above, never by the store's own, which is later by two seconds
-- at least. It is set for longer than is needed now, so that most changes leave it.
local function ring_keep(k, rule)
	if used == 0 then
		heads[k] = false
		return
	end
	local w = window[rule]
	local ends = (newest + 1) * quantum + w
	if ends > lives then
		lives = ends + (w < LONGER_MOST and w or LONGER_MOST)
		longer[k] = seconds_until(lives)
	end
	heads[k] = to_bytes(HEAD, quantum, used, newest, count, oldest, lives)
	texts[k], firsts[k], mores[k] = text, first, more
end

-- In the newest slot, if the clock has gone back behind that.
local function ring_take(k, rule, cost)
	local slot = add(floor(now / quantum), cost)
	ring_keep(k, rule)
	return slot
end

local function give_of(slot, cost)
	if slot == newest then
		cost = count < cost and count or cost
		count, used = count - cost, used - cost
		return
	end
	flatten()
	for at = first, #text - 1, SLOT_BYTES do
		local found, had = from_bytes(SLOT, text, at)
		if found == slot then
			cost = had < cost and had or cost
			text = sub(text, 1, at - 1) .. to_bytes(SLOT, slot, had - cost)
				.. sub(text, at + SLOT_BYTES)
			used = used - cost
			return
		end
	end
end

local function ring_give(k, rule, slot, cost)
	give_of(slot, cost)
	ring_keep(k, rule)
end

-- Until `missing` of what is used counts no more.
local function time_to_free(rule, missing)
	local slot = newest
	flatten()
	for at = first, #text - 1, SLOT_BYTES do
		local older, had = from_bytes(SLOT, text, at)
		missing = missing - had
		if missing <= 0 then
			slot = older
			break
		end
	end
	return (slot + 1) * quantum + window[rule] - now
end

local function ring_time(rule, cost, missing)
	local most = quota[rule]
	if missing > 0 then
		return cost > most and -1 or time_to_free(rule, missing)
	elseif used == 0 then
		return 0
	elseif used >= most then
		return time_to_free(rule, used - most + 1)
	elseif count == 0 then
		return time_to_free(rule, used)
	end
	return (newest + 1) * quantum + window[rule] - now
end

local function ring_missing(rule, cost)
	return used + (cost > 0 and cost or 1) - quota[rule]
end

-- A caller refused `quota` times within the window of a ban's rule is banned for some time. Its
-- refusals, in key k, are then one charge of as much that counts until the ban is over.
local function note_refusal(k, rule, ban)
	ring_look_up(k, rule)
	add(floor(now / quantum), 1)
	if used >= quota[rule] then
		used = 0
		add(floor((now + ban - window[rule]) / quantum), quota[rule])
	end
	ring_keep(k, rule)
end

-- How long the caller is still banned; false: it is not.
local function time_banned(k, rule)
	ring_look_up(k, rule)
	return used >= quota[rule] and (newest + 1) * quantum + window[rule] - now
end

local function ring_write(key, k, head)
	local before, older, at, added = kept[k], texts[k], firsts[k], mores[k]
	if not head then
		call('DEL', key)
	elseif longer[k] then
		put(key, head .. sub(older, at) .. added, longer[k])
	elseif at ~= HEAD_BYTES + 1 or older ~= before then
		call('SET', key, head .. sub(older, at) .. added, 'KEEPTTL')
	elseif added == '' then
		call('SETRANGE', key, '0', head)
	else
		call('SETRANGE', key, '0', head .. sub(older, at) .. added)
	end
	texts[k], firsts[k], mores[k], longer[k] = nil, nil, nil, nil
end

local function ring_save(keys)
	local write, changes, slots, lengthened, added, charged = call, heads, texts, longer, mores, middles
	for k = 2, #keys do
		local middle, head = charged[k], changes[k]
		if middle and head == nil then
			write('SETRANGE', keys[k], '8', middle)
			if added[k] then
				write('APPEND', keys[k], added[k])
				added[k] = nil
			end
			charged[k] = nil
		elseif head and not slots[k] then
			if lengthened[k] then
				put(keys[k], head, lengthened[k])
				lengthened[k] = nil
			else
				write('SETRANGE', keys[k], '0', head)
			end
			changes[k], charged[k] = nil, nil
		elseif head ~= nil then
			ring_write(keys[k], k, head)
			changes[k], charged[k] = nil, nil
		end
	end
end

-- One limit's part of the answer, in one step; of the other kinds it takes five (operate.lua).
local function ring_judge(k, rule, cost, takes)
	ring_look_up(k, rule)
	local most = quota[rule]
	local missing, slot = used + (cost > 0 and cost or 1) - most, 0
	if missing > 0 then
		return used, -1, cost > most and -1 or time_to_free(rule, missing)
	elseif takes and cost > 0 then
		slot = floor(now / quantum)
		if used > 0 and slot <= newest then
			count, used, slot = count + cost, used + cost, newest
		else
			slot = add(slot, cost)
		end
		ring_keep(k, rule)
		if used < most then
			return used, slot, (newest + 1) * quantum + window[rule] - now
		end
	end
	return used, slot, ring_time(rule, cost, 0)
end

-- The same by what was kept before the call, without charging.
local function ring_peek(k, rule, cost)
	local before, w = kept[k], window[rule]
	if before then
		local q, uses, last, had, first_slot = from_bytes(HEAD, before)
		local missing = uses + cost - quota[rule]
		if q == grain[rule] and had > 0 and (first_slot + 1) * q > now - w and cost <= quota[rule] then
			if missing <= 0 then
				return uses, 0, (last + 1) * q + w - now
			end
			if #before > HEAD_BYTES then
				last, had = from_bytes(SLOT, before, HEAD_BYTES + 1)
			end
			if had >= missing then
				return uses, -1, (last + 1) * q + w - now
			end
		end
	end
	return ring_judge(k, rule, cost, false)
end

-- A caller of whom nothing counts any more, until `till` if that is late enough to be kept.
local function charge_anew(k, rule, slot, cost, till)
	local q, w = grain[rule], window[rule]
	local ends = (slot + 1) * q + w
	if not till or till < ends then
		till = ends + (w < LONGER_MOST and w or LONGER_MOST)
		longer[k] = seconds_until(till)
	end
	heads[k] = to_bytes(HEAD, q, cost, slot, cost, slot, till)
	middles[k] = to_bytes(MIDDLE, cost, slot, cost)
end

-- The same of any caller in a run. True: it was not, or all of the quota is then used, or the answer
-- can't be as short as a run's.
local function charge_any(k, rule, cost)
	local uses, slot = ring_judge(k, rule, cost, true)
	middles[k] = to_bytes(MIDDLE, used, newest, count)
	return slot <= 0 or uses >= quota[rule]
end

-- Charges so many callers, whose keys are k and every `step` further, by one rule; where it can't, or
-- all of the quota is then used, `hard` is set. Most are new, or have nothing left that counts, or
-- lose nothing by now: then they are not looked up, and have no `texts` (ring_look_up, ring_save).
-- Each line counts, as Redis's Lua takes some 15 ns for one of its own instructions, 100 to call C.
local function ring_charge_all(k, step, callers, rule, cost, hard)
	local before_all, charged, read, write, HEAD, MIDDLE = kept, middles, from_bytes, to_bytes, HEAD, MIDDLE
	local q, w, free = grain[rule], window[rule], quota[rule] - cost
	local slot, low = (now - now % q) / q, (now - w - (now - w) % q) / q
	local ends = (slot + 1) * q + w
	for i = 1, callers do
		if not hard[i] then
			local before = before_all[k]
			if before then
				local as, uses, last, had, first_slot, till = read(HEAD, before)
				if first_slot < low then
					if as == q and last < low and free > 0 then
						charge_anew(k, rule, slot, cost, #before == HEAD_BYTES and till)
					else
						hard[i] = charge_any(k, rule, cost)
					end
				elseif uses >= free then
					hard[i] = true
				elseif as ~= q or till < ends or last > slot then
					hard[i] = charge_any(k, rule, cost)
				elseif last == slot then
					charged[k] = write(MIDDLE, uses + cost, slot, had + cost)
				else
					charged[k] = write(MIDDLE, uses + cost, slot, cost)
					mores[k] = write(SLOT, last, had)
				end
			elseif before == false and free > 0 then
				charge_anew(k, rule, slot, cost, false)
			else
				hard[i] = charge_any(k, rule, cost)
			end
		end
		k = k + step
	end
end

local ring = {
	judge = ring_judge, look_up = ring_look_up, missing = ring_missing, take = ring_take, give = ring_give,
	time = ring_time, used = function() return used end,
}
