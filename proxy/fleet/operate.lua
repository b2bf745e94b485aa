-- The operations of a request, one after the other.
local forms = { [0] = ring, gcra, calendar, holders }

-- Of a limit that waits after a loss: what it says instead.
local function waiting(rule, cost)
	local most, missing = burst[rule] or quota[rule], form[rule].missing(rule, cost)
	local time = missing > 0 and form[rule].time(rule, cost, missing) or 0
	if cost > most then
		time = -1
	elseif time < full[rule] then
		time = full[rule]
	end
	local uses = form[rule].used(rule)
	return uses > most and uses or most, -1, time
end

-- One limit's part of the answer; it is charged if `takes`.
local function outcome(k, rule, cost, takes)
	local of = form[rule]
	if of.judge and not full[rule] then
		return of.judge(k, rule, cost, takes)
	end
	of.look_up(k, rule)
	if full[rule] then
		return waiting(rule, cost)
	end
	local missing, slot = of.missing(rule, cost), 0
	if missing > 0 then
		slot = -1
	elseif takes and cost > 0 then
		slot = of.take(k, rule, cost)
	end
	return of.used(rule), slot, of.time(rule, cost, missing)
end

-- A refusal that leaves a trace: it counts, or counts towards a ban.
local function note(k, rule, cost)
	if counts[rule] and cost > 0 then
		form[rule].take(k, rule, cost)
	end
	if bans[rule] then
		note_refusal(k + 1, rule + 1, bans[rule])
	end
end

-- The same where the caller may be banned. A cost of 0 asks whether anything is free.
local function conclude(k, rule, cost, takes, notes)
	local left = bans[rule] and time_banned(k + 1, rule + 1)
	if left then
		form[rule].look_up(k, rule)
		return form[rule].used(rule), -2, left
	end
	local uses, slot, time = outcome(k, rule, cost, takes)
	if notes and slot == -1 and not shadow[rule] then
		note(k, rule, cost)
	end
	return uses, slot, time
end

local function fits(k, rule, cost)
	if shadow[rule] then
		return true
	elseif full[rule] or bans[rule] and time_banned(k + 1, rule + 1) then
		return false
	end
	form[rule].look_up(k, rule)
	return form[rule].missing(rule, cost) <= 0
end

-- Most requests have one limit: its caller is looked at once.
local function ask_one(k, rule, cost, takes, answer, n)
	if traces[rule] then
		local admitted = fits(k, rule, cost)
		answer[n] = admitted and 1 or 0
		answer[n + 1], answer[n + 2], answer[n + 3] =
			conclude(k, rule, cost, takes and admitted, takes and not admitted)
		return
	end
	answer[n + 1], answer[n + 2], answer[n + 3] = outcome(k, rule, cost, takes)
	answer[n] = (answer[n + 2] >= 0 or shadow[rule]) and 1 or 0
end

-- Of the limits that a request has been charged so far, by their places in it: what was kept of
-- their callers before, to be had again when a later one does not fit.
local head_before, text_before, first_before, more_before = {}, {}, {}, {}
local changed_before, longer_before = {}, {}

local function save_before(i, k)
	head_before[i], text_before[i] = heads[k], texts[k]
	first_before[i], more_before[i] = firsts[k], mores[k]
	changed_before[i], longer_before[i] = changed[k], longer[k]
end

local function restore_before(i, k)
	heads[k], texts[k] = head_before[i], text_before[i]
	firsts[k], mores[k] = first_before[i], more_before[i]
	changed[k], longer[k] = changed_before[i], longer_before[i]
end

-- Those before place `till` are not charged, as one there does not fit.
local function take_back(request, at, till, answer, n)
	for i = at, till - 1, 3 do
		if answer[n + 2] > 0 then
			restore_before(i - at, request[i])
			answer[n + 1], answer[n + 2], answer[n + 3] =
				outcome(request[i], request[i + 1], request[i + 2], false)
		end
		n = n + 3
	end
end

-- Each limit is charged as it is looked at, until one does not fit. No refusal leaves a trace.
local function ask_plain(request, at, till, takes, answer, n)
	local first = n
	answer[n] = 1
	for i = at, till, 3 do
		local k, rule = request[i], request[i + 1]
		if takes then
			save_before(i - at, k)
		end
		answer[n + 1], answer[n + 2], answer[n + 3] = outcome(k, rule, request[i + 2], takes)
		if answer[n + 2] < 0 and not shadow[rule] then
			answer[first] = 0
			if takes then
				takes = false
				take_back(request, at, i, answer, first)
			end
		end
		n = n + 3
	end
	return n + 1
end

local function is_plain(request, at, till)
	for i = at + 1, till, 3 do
		if traces[request[i]] then
			return false
		end
	end
	return true
end

local function ask(request, at, limits, takes, answer, n)
	local till, admitted = at + 3 * limits - 1, true
	if limits == 1 then
		ask_one(request[at], request[at + 1], request[at + 2], takes, answer, n)
		return till + 1, n + 4
	elseif is_plain(request, at, till) then
		return till + 1, ask_plain(request, at, till, takes, answer, n)
	end
	for i = at, till, 3 do
		admitted = fits(request[i], request[i + 1], request[i + 2]) and admitted
	end
	answer[n] = admitted and 1 or 0
	for i = at, till, 3 do
		answer[n + 1], answer[n + 2], answer[n + 3] = conclude(request[i], request[i + 1],
			request[i + 2], takes and admitted, takes and not admitted)
		n = n + 3
	end
	return till + 1, n + 1
end

-- Not what is in flight, which its holders know.
local function forget(k, rule)
	if form[rule] == ring then
		heads[k] = false
	elseif form[rule] ~= holders then
		changed[k] = false
	end
	if bans[rule] then
		heads[k + 1] = false
	end
end

-- Another operation than asking. Returns where the next one is.
local function change(request, at)
	local kind, k, rule = request[at], request[at + 1], request[at + 2]
	if kind == 5 then
		hold(k, request[at + 3], request[at + 4] == 1)
		return at + 5
	elseif kind == 6 then
		forget(k, rule)
		return at + 3
	end
	form[rule].look_up(k, rule)
	if kind == 3 then
		form[rule].take(k, rule, request[at + 3])
		return at + 4
	elseif request[at + 5] == epoch or form[rule] == holders then
		form[rule].give(k, rule, request[at + 3], request[at + 4])
	end
	return at + 6
end

-- How a verdict over so many limits is packed: its first number, and three of each limit.
local verdicts = {}

-- The verdict over `limits` becomes part of the call's answer.
local function say(limits)
	local as = verdicts[limits]
	if not as then
		as = '<d' .. string.rep('ddd', limits)
		verdicts[limits] = as
	end
	answer[1] = -answer[1]
	piece_count = piece_count + 1
	pieces[piece_count] = to_bytes(as, unpack(answer, 1, 3 * limits + 1))
end

-- A run's requests that were not charged at once, by their places in it.
local hard = {}

-- What ask says to one of them, with its keys from k on; first it is looked whether all fit.
local function judge_hard(request, at, limits, k)
	answer[1] = 1
	for pass = 1, 2 do
		for i = 0, limits - 1 do
			local rule, cost, n = request[at + 2 * i], request[at + 2 * i + 1], 2 + 3 * i
			if pass == 1 and not lost then
				answer[n], answer[n + 1], answer[n + 2] = ring_peek(k + i, rule, cost)
			else
				answer[n], answer[n + 1], answer[n + 2] = outcome(k + i, rule, cost, pass == 2)
			end
			if answer[n + 1] < 0 and not shadow[rule] then
				answer[1] = 0
			end
		end
		if answer[1] == 0 then
			break
		end
	end
	say(limits)
end

-- Charges of keys in a run from k on are as if they had never been.
local function forget_charges(k, till)
	for i = k, till do
		if middles[i] or heads[i] ~= nil then
			heads[i], texts[i], firsts[i], mores[i], longer[i] = nil, nil, nil, nil, nil
			middles[i] = nil
		end
	end
end

-- Many requests by the same limits, of callers that the call has not looked at before: limit by
-- limit, as if all fitted; then those that do not are judged again, by all limits.
local function run(request, at)
	local limits, count, k, rules = request[at + 1], request[at + 2], request[at + 3], at + 4
	local said, n, charged = pieces, piece_count, middles
	for i = 1, count do
		hard[i] = lost
	end
	for i = 0, lost and -1 or limits - 1 do
		ring_charge_all(k + i, limits, count, request[rules + 2 * i], request[rules + 2 * i + 1], hard)
	end
	for i = 1, count do
		if hard[i] then
			forget_charges(k, k + limits - 1)
			piece_count = n
			judge_hard(request, rules, limits, k)
			n = n + 1
		else
			for key = k, k + limits - 1 do
				n = n + 1
				said[n] = charged[key]
			end
		end
		k = k + limits
	end
	piece_count = n
	return rules + 2 * limits
end

local function operate(request, at)
	local length = #request
	while at <= length do
		local kind = request[at]
		if kind == 7 then
			at = run(request, at)
		elseif kind == 1 or kind == 4 then
			local limits = request[at + 1]
			at = ask(request, at + 2, limits, kind == 1, answer, 1)
			say(limits)
		else
			at = change(request, at)
		end
	end
end

-- How long a limit that waits is full, or false.
local function wait_of(rule)
	local after = window[rule]
	if form[rule] == calendar then
		calendar_look_up(0, rule)
		after = epoch >= begins and ends - epoch or 0
	elseif form[rule] == gcra then
		after = ceil(burst[rule] * after / quota[rule])
	elseif form[rule] == holders then
		after = lease
	end
	return wait_after_loss(after)
end

-- What the kind of rule i says more; returns what follows.
local function read_kind(request, at, i)
	if form[i] == ring then
		window[i], grain[i] = request[at], request[at + 1]
		return at + 2
	elseif form[i] == gcra then
		window[i], burst[i] = request[at], request[at + 1]
		return at + 2
	elseif form[i] == calendar then
		edges[i] = { request[at], request[at + 1], request[at + 2], request[at + 3] }
		return at + 4
	end
	return at
end

local function read_rules(request)
	local at = 4
	for i = 1, request[3] do
		local flags = request[at]
		quota[i], form[i], burst[i] = request[at + 1], forms[floor(flags / 16) % 4], false
		at = read_kind(request, at + 2, i)
		shadow[i], counts[i], bans[i] = flags % 2 == 1, flags % 8 >= 4, false
		full[i] = waits(flags) and wait_of(i)
		if flags % 16 >= 8 then
			bans[i] = request[at]
			at = at + 1
		end
		traces[i] = counts[i] or bans[i] ~= false
	end
	return at
end

-- The requests that have come before by their texts, with `operations` where these begin: a node asks
-- most calls by few texts, and to read one costs more than to judge it. Those of a single run only.
local READ_MOST, READ_BYTES_MOST = 64, 200
local read_before, read_count, rules_text

local function keep_request(text, request, at)
	if #text <= READ_BYTES_MOST and request[at] == 7 and at + 2 * request[at + 1] + 3 == #request then
		if read_count == READ_MOST then
			read_before, read_count = {}, 0
		end
		read_before[text], read_count = request, read_count + 1
	end
end

-- Makes the rules of the request of this text those in force.
local function use_rules(request, text)
	if not request.operations then
		request.operations = read_rules(request)
		keep_request(text, request, request.operations)
	elseif lost or text ~= rules_text then
		read_rules(request)
	end
	rules_text = not lost and text
end

local function save(keys)
	ring_save(keys)
	if next(changed) then
		for k, text in pairs(changed) do
			if text then
				put(keys[k], text, longer[k])
			else
				call('DEL', keys[k])
			end
			longer[k] = nil
		end
		changed = {}
	end
end

-- The store's clock, whose seconds are those of the call before, as a rule.
local second_text, second

local function read_clock()
	local time = call('TIME')
	if time[1] ~= second_text then
		second_text, second = time[1], time[1] * 1000000
	end
	now = second + time[2]
end

-- Of the call before: it was broken off by an error, so that the tables are not empty. Before the first
-- call, too.
local is_under_way = true

local function make_ready()
	call, to_bytes, from_bytes = redis.call, struct.pack, struct.unpack
	floor, ceil, sub, format, concat = math.floor, math.ceil, string.sub, string.format, table.concat
	next, pairs, tonumber, unpack = _G.next, _G.pairs, _G.tonumber, _G.unpack
	make_tables()
	changed, read_before, read_count, rules_text, remembered, second_text = {}, {}, 0, nil, nil, nil
end

local function judge(keys, args)
	if is_under_way then
		make_ready()
	end
	is_under_way = true
	read_clock()
	kept = call('MGET', unpack(keys))
	local request = read_before[args[1]] or cmsgpack.unpack(args[1])
	holder, lease = request[1], request[2]
	remember(keys[1], args[2])
	pieces[1], piece_count = to_bytes('<dd', now, epoch), 1
	use_rules(request, args[1])
	operate(request, request.operations)
	save(keys)
	is_under_way = false
	return concat(pieces, '', 1, piece_count)
end

redis.register_function('sluice_judge_1', judge)
