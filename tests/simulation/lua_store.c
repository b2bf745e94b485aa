#include "tests/simulation/lua_store.h"

#include <assert.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/integers.h"

enum { NUMBERS_MOST = 65536 };

struct store {
	lua_State *lua;
	int serve; /* reference to the function */
};

/* What Redis is to its functions. */
static const char surroundings[] =
	"local kept, ends, now, run = {}, {}, 0, nil\n"
	"local calls = {\n"
	"  TIME = function() return { math.floor(now / 1000000), now % 1000000 } end,\n"
	"  MGET = function(...)\n"
	"    local found = {}\n"
	"    for i = 1, select('#', ...) do\n"
	"      local key = select(i, ...)\n"
	"      if ends[key] and ends[key] <= now then kept[key], ends[key] = nil, nil end\n"
	"      found[i] = kept[key] or false\n"
	"    end\n"
	"    return found\n"
	"  end,\n"
	"  SET = function(key, value, _, seconds)\n"
	"    kept[key], ends[key] = value, seconds and now + seconds * 1000000\n"
	"  end,\n"
	"  DEL = function(key) kept[key], ends[key] = nil, nil end,\n"
	"}\n"
	"redis = {\n"
	"  call = function(what, ...) return calls[what](...) end,\n"
	"  register_function = function(_, registered) run = registered end,\n"
	"}\n"
	"return function(at, request, known, ...)\n"
	"  now = at\n"
	"  return run({ ... }, { request, known })\n"
	"end\n";

/* ---- struct and cmsgpack --------------------------------------------------------------------- */

/* Formats of '<' and 'd' only: this machine's numbers. */
static int pack_numbers(lua_State *lua)
{
	double numbers[8];
	size_t count = strlen(luaL_checkstring(lua, 1)) - 1;

	luaL_argcheck(lua, count <= 8, 1, "too long");
	for (size_t i = 0; i < count; i++)
		numbers[i] = luaL_checknumber(lua, 2 + (int)i);
	lua_pushlstring(lua, (const char *)numbers, count * sizeof(double));
	return 1;
}

static int unpack_numbers(lua_State *lua)
{
	size_t len, count = strlen(luaL_checkstring(lua, 1)) - 1;
	const char *bytes = luaL_checklstring(lua, 2, &len);
	size_t at = (size_t)luaL_optinteger(lua, 3, 1) - 1;
	double number;

	luaL_argcheck(lua, at + count * sizeof(double) <= len, 2, "too short");
	for (size_t i = 0; i < count; i++, at += sizeof(double)) {
		memcpy(&number, bytes + at, sizeof(number));
		lua_pushnumber(lua, number);
	}
	lua_pushinteger(lua, (lua_Integer)at + 1);
	return (int)count + 1;
}

static int pack_array(lua_State *lua)
{
	size_t count = lua_objlen(lua, 1), len;
	uint8_t *bytes = malloc(INTEGERS_HEAD_BYTES + count * INTEGERS_MOST_BYTES);

	assert(bytes);
	len = integers_head(bytes, (uint32_t)count);
	for (size_t i = 1; i <= count; i++) {
		lua_rawgeti(lua, 1, (int)i);
		double number = lua_tonumber(lua, -1);
		if (number < 0)
			bytes[len++] = 0xff; /* -1, the only one there is */
		else
			len += integers_put(bytes + len, (uint64_t)number);
		lua_pop(lua, 1);
	}
	lua_pushlstring(lua, (const char *)bytes, len);
	free(bytes);
	return 1;
}

static int unpack_array(lua_State *lua)
{
	struct integers integers;
	size_t len;
	const char *bytes = luaL_checklstring(lua, 1, &len);

	integers_begin(&integers, bytes, len);
	luaL_argcheck(lua, integers.left <= NUMBERS_MOST, 1, "too long");
	lua_createtable(lua, (int)integers.left, 0);
	for (int i = 1; integers.left > 0; i++) {
		lua_pushnumber(lua, (double)integers_next(&integers));
		lua_rawseti(lua, -2, i);
	}
	luaL_argcheck(lua, !integers.wrong, 1, "not integers");
	return 1;
}

/* ---- the store ------------------------------------------------------------------------------- */

static void stop(struct store *store)
{
	fprintf(stderr, "store: %s\n", lua_tostring(store->lua, -1));
	exit(1);
}

struct store *store_new(const char *path)
{
	static const luaL_Reg numbers[] = {
		{"pack", pack_numbers}, {"unpack", unpack_numbers}, {NULL, NULL}};
	static const luaL_Reg arrays[] = {
		{"pack", pack_array}, {"unpack", unpack_array}, {NULL, NULL}};
	struct store *store = calloc(1, sizeof(*store));

	assert(store);
	store->lua = luaL_newstate();
	assert(store->lua);
	luaL_openlibs(store->lua);
	luaL_register(store->lua, "struct", numbers);
	luaL_register(store->lua, "cmsgpack", arrays);
	lua_settop(store->lua, 0);
	if (luaL_loadstring(store->lua, surroundings) || lua_pcall(store->lua, 0, 1, 0))
		stop(store);
	store->serve = luaL_ref(store->lua, LUA_REGISTRYINDEX);
	if (luaL_loadfile(store->lua, path) || lua_pcall(store->lua, 0, 0, 0))
		stop(store);
	return store;
}

void store_free(struct store *store)
{
	lua_close(store->lua);
	free(store);
}

/* The next word of a command: `$4\r\nword\r\n`. */
static const char *next_word(const char **at, size_t *len)
{
	*len = strtoul(*at + 1, NULL, 10);
	const char *word = strchr(*at, '\n') + 1;
	*at = word + *len + 2;
	return word;
}

const char *store_call(
	struct store *store, const char *command, size_t len, uint64_t now_us, size_t *answer_len)
{
	const char *at = strchr(command, '\n') + 1;
	size_t word_len;
	unsigned long keys;

	next_word(&at, &word_len); /* FCALL */
	next_word(&at, &word_len); /* the function */
	keys = strtoul(next_word(&at, &word_len), NULL, 10);
	lua_settop(store->lua, 0);
	lua_rawgeti(store->lua, LUA_REGISTRYINDEX, store->serve);
	lua_pushnumber(store->lua, (double)now_us);
	lua_pushnil(store->lua); /* the places of the arguments, which come behind the keys */
	lua_pushnil(store->lua);
	for (unsigned long i = 0; i < keys; i++) {
		const char *key = next_word(&at, &word_len);
		lua_pushlstring(store->lua, key, word_len);
	}
	for (int place = 3; place <= 4; place++) {
		const char *argument = next_word(&at, &word_len);
		lua_pushlstring(store->lua, argument, word_len);
		lua_replace(store->lua, place);
	}
	assert(at <= command + len);
	if (lua_pcall(store->lua, (int)keys + 3, 1, 0)) {
		fprintf(stderr, "store: %s\n", lua_tostring(store->lua, -1));
		return NULL;
	}
	return lua_tolstring(store->lua, 1, answer_len);
}
