#!lua name=sluice_lock_1
-- Named locks with leases, by the store's time: lock.h has the rules. The number is of what is called and
-- what is kept, as in judge.lua.
--
-- FCALL sluice_lock_1 n+1 lock-key... index-key { verb session number lease-ms keep-ms value }...
-- FCALL sluice_locks_1 1 index-key cursor
--
-- The first takes six words for each lock, and runs them in their order. Verbs and numbers:
--   take     number: the fence at the session's birth; -1 - N: any, but what it had by fences up to N is over
--   use      number: the session's fence
--   release  the same
--   end      number: the fence of the session that is to end, 0 for any
--   look     nothing changes
-- A value that is not empty becomes the lock's if the session holds it: that is the effect of a use.
-- The answer has for each lock a line `status fence left-ms session bytes`, and so many bytes of the
-- lock's value (of take and look), and a newline. The session is - where there is none. The fence of a lock
-- that is not kept is the time (us).
--
-- A lock is a hash: session ('' when nobody has it), fence, ends, till, value. A session that was born more than
-- keep-ms ago takes no lock that is not kept. A lock is kept until `till`, twice keep-ms after its lease or more: so
-- that is right also where the clock is set back by up to keep-ms meanwhile. The index has the keys of locks with a
-- session, by the time until which they are kept.
--
-- The second answers the next cursor (0: that was all) and some keys of the index, each in a line.
local HELD, BUSY, LAPSED, FREE, OVER = 'held', 'busy', 'lapsed', 'free', 'over'
local WORDS, AT_ONCE = 6, 100
local now_ms, now_us

local function text(number) return string.format('%.0f', number) end

local function read(key)
	local kept = redis.call('HMGET', key, 'session', 'fence', 'ends', 'till')
	return { session = kept[1] or '', fence = tonumber(kept[2] or now_us), ends = tonumber(kept[3] or 0),
		till = tonumber(kept[4] or 0), is_kept = kept[2] ~= false }
end

local function write(key, lock)
	redis.call('HSET', key, 'session', lock.session, 'fence', text(lock.fence), 'ends', text(lock.ends),
		'till', text(lock.till))
	redis.call('PEXPIRE', key, text(lock.till - now_ms))
end

local function read_value(key) return redis.call('HMGET', key, 'value')[1] or '' end

local function drop_old(index)
	local old = redis.call('ZRANGEBYSCORE', index, '-inf', text(now_ms), 'LIMIT', 0, AT_ONCE)
	if #old > 0 then
		redis.call('ZREM', index, unpack(old))
	end
end

-- The later of two ends stays. Most renewals leave the time until which it is kept as it is.
local function renew(key, index, lock, ask)
	lock.ends = math.max(lock.ends, now_ms + ask.lease)
	if lock.till < lock.ends + 2 * ask.keep then
		lock.till = lock.ends + 3 * ask.keep
		write(key, lock)
		redis.call('ZADD', index, text(lock.till), key)
	else
		redis.call('HSET', key, 'ends', text(lock.ends))
	end
	if ask.value ~= '' then
		redis.call('HSET', key, 'value', ask.value)
	end
	return HELD
end

-- Has nobody taken it since the session's birth? Of a lock that is not kept that is so for the last keep-ms.
local function is_fit(lock, ask)
	if lock.is_kept then
		return ask.number < 0 or ask.number == lock.fence
	end
	return ask.number < 0 or ask.number > now_us - ask.keep * 1000
end

-- A store that has lost its last writes may name the session for what it has given up since, when others may have had
-- the lock meanwhile.
local function is_past(lock, ask) return ask.number < 0 and lock.fence <= -1 - ask.number end

-- Fences grow with the store's time, too, so that they do when a lock is not kept any more, or the store
-- has lost what it kept.
local function take(key, index, lock, ask)
	if lock.session == ask.session and lock.session ~= '' and not is_past(lock, ask) then
		return renew(key, index, lock, ask)
	elseif not is_fit(lock, ask) then
		return OVER
	elseif lock.session ~= '' and lock.session ~= ask.session and lock.ends > now_ms then
		return BUSY
	end
	drop_old(index)
	lock.session, lock.fence = ask.session, math.max(lock.fence + 1, now_us)
	lock.ends, lock.till = 0, 0
	return renew(key, index, lock, ask)
end

local function holds(lock, ask)
	return lock.session == ask.session and lock.session ~= '' and lock.fence == ask.number
end

local function use(key, index, lock, ask)
	return holds(lock, ask) and renew(key, index, lock, ask) or OVER
end

-- The fence stays for twice keep-ms.
local function free(key, index, lock, ask)
	lock.session, lock.ends, lock.till = '', 0, now_ms + 2 * ask.keep
	write(key, lock)
	redis.call('ZREM', index, key)
	return FREE
end

local function release(key, index, lock, ask)
	return holds(lock, ask) and free(key, index, lock, ask) or OVER
end

local function finish(key, index, lock, ask)
	if lock.session == '' or (ask.number > 0 and ask.number ~= lock.fence) then
		return OVER
	end
	local session = lock.session
	free(key, index, lock, ask)
	lock.session = session
	return FREE
end

local function look(_, _, lock)
	if lock.session == '' then
		return FREE
	end
	return lock.ends > now_ms and BUSY or LAPSED
end

local verbs = { take = take, use = use, release = release, ['end'] = finish, look = look }
local shows_value = { take = true, look = true }

local function run(keys, args)
	local time, lines = redis.call('TIME'), {}
	now_us = time[1] * 1000000 + time[2]
	now_ms = math.floor(now_us / 1000)
	local index = keys[#keys]
	for i = 1, #keys - 1 do
		local at = (i - 1) * WORDS
		local ask = { session = args[at + 2], number = tonumber(args[at + 3]), lease = tonumber(args[at + 4]),
			keep = tonumber(args[at + 5]), value = args[at + 6] }
		local lock = read(keys[i])
		local status = verbs[args[at + 1]](keys[i], index, lock, ask)
		local value = shows_value[args[at + 1]] and read_value(keys[i]) or ''
		lines[#lines + 1] = string.format('%s %s %s %s %d\n%s\n', status, text(lock.fence),
			text(math.max(0, lock.ends - now_ms)), lock.session == '' and '-' or lock.session, #value, value)
	end
	return table.concat(lines)
end

local function list(keys, args)
	local found = redis.call('ZSCAN', keys[1], args[1], 'COUNT', AT_ONCE)
	local lines = { found[1] }
	for i = 1, #found[2], 2 do
		lines[#lines + 1] = found[2][i]
	end
	return table.concat(lines, '\n')
end

redis.register_function('sluice_lock_1', run)
redis.register_function('sluice_locks_1', list)
