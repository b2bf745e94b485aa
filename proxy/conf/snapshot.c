/* A snapshot's life: loaded, held, released. See conf.h. */
#include <stdlib.h>
#include <string.h>

#include "conf/build.h"
#include "conf/credentials.h"

enum { FILE_BYTES = 16 << 20 };

/* The input and the result of conf_build. */
struct work {
	const char *name, *folder;
	build_feed *feed;
	void *feed_ctx;
	bool only_admin;
	struct conf_errors *errors;
	struct arena *arena;
	struct conf *conf;
};

static void run(void *ctx)
{
	struct work *work = ctx;
	struct arena *arena = work->arena;
	struct conf *conf = arena_alloc(arena, sizeof(*conf));
	struct conf_source *source = arena_alloc(arena, sizeof(*source));
	struct build build = {
		.arena = arena, .conf = conf, .source = source, .errors = work->errors};

	work->errors->lines = &build.lines;
	source->instances_tail = &source->instances;
	source->folder = work->folder ? arena_text(arena, slice_of(work->folder)) : NULL;
	conf->arena = arena;
	conf->source = source;
	conf->path = arena_text(arena, slice_of(work->name));
	conf->holders = arena_alloc(arena, sizeof(*conf->holders));
	atomic_init(conf->holders, 1);
	build.name = conf->path;
	build.folder = source->folder;
	build.names_files = work->folder != NULL;
	build.only_admin = work->only_admin;

	build_take(&build, work->feed, work->feed_ctx);
	if (!work->only_admin)
		check_snapshot(&build);
	source->lines = build.lines;
	work->errors->lines = NULL;
	if (work->errors->count > 0 || work->errors->incomplete)
		return;
	order_routes(&build);
	credentials_settle(conf);
	work->conf = conf;
}

/* The snapshot, or NULL and `work` has no arena any more. */
static struct conf *do_work(struct work *work)
{
	struct conf_errors *errors = work->errors;

	*errors = (struct conf_errors){0};
	work->arena = arena_new();
	if (!work->arena || !arena_run(work->arena, run, work))
		errors->incomplete = true;
	else if (work->conf)
		return work->conf;
	errors->lines = NULL;
	arena_free(work->arena);
	conf_errors_sort(errors);
	return NULL;
}

struct conf *conf_build(const char *name, const char *folder, build_feed *feed, void *ctx,
	struct conf_errors *errors)
{
	struct work work = {
		.name = name, .folder = folder, .feed = feed, .feed_ctx = ctx, .errors = errors};

	return do_work(&work);
}

static void give_text(struct build *build, const struct reader_handler *handler, void *ctx)
{
	const struct slice *text = ctx;

	(void)handler;
	build_open_main(build);
	build_read_file(build, build->name, *text);
}

struct conf *conf_parse(const char *text, size_t len, const char *name, const char *folder,
	struct conf_errors *errors)
{
	struct slice whole = {text, len};

	return conf_build(name, folder, give_text, &whole, errors);
}

/* How a file is read. */
struct manner {
	bool regular;    /* no pipe */
	bool only_admin; /* see conf_load_admin */
};

static struct conf *load(const char *path, struct manner manner, struct conf_errors *errors)
{
	const char *slash = strrchr(path, '/'), *why = "";
	struct slice whole = SLICE_NONE;
	struct conf *conf = NULL;
	char *folder, *text;

	*errors = (struct conf_errors){0};
	text = reader_file(path, FILE_BYTES, manner.regular, &whole.len, &why);
	if (!text) {
		conf_errors_add(errors, path, 0, "can't be read: %s", why);
		return NULL;
	}
	folder = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
	whole.at = text;
	if (folder) {
		struct work work = {.name = path,
			.folder = folder,
			.feed = give_text,
			.feed_ctx = &whole,
			.only_admin = manner.only_admin,
			.errors = errors};
		conf = do_work(&work);
	}
	errors->incomplete |= !folder;
	free(folder);
	free(text);
	return conf;
}

struct conf *conf_load(const char *path, struct conf_errors *errors)
{
	return load(path, (struct manner){.regular = false}, errors);
}

struct conf *conf_load_again(const char *path, struct conf_errors *errors)
{
	return load(path, (struct manner){.regular = true}, errors);
}

struct conf *conf_load_admin(const char *path, struct conf_errors *errors)
{
	return load(path, (struct manner){.only_admin = true}, errors);
}

unsigned conf_line(const struct conf *conf, const char *key)
{
	const struct setting *setting = NULL;

	for (const struct instance *instance = conf->source->instances; instance && !setting;
		instance = instance->next)
		if (instance->section->id == SECTION_SLUICE)
			setting = instance_setting(instance, key);
	return setting ? setting->line : 0;
}

struct conf_place conf_place(const struct conf *conf, unsigned line)
{
	return lines_place(&conf->source->lines, line);
}

const struct conf *conf_hold(const struct conf *conf)
{
	/* Relaxed: a holder of one already keeps it alive, nothing is published by it. */
	atomic_fetch_add_explicit(conf->holders, 1, memory_order_relaxed);
	return conf;
}

void conf_release(const struct conf *conf)
{
	if (!conf)
		return;
	/*
	 * Release: what this holder read happened before the last one frees it. Acquire: the last
	 * one sees all of that; pairs with the release of each of the others.
	 */
	if (atomic_fetch_sub_explicit(conf->holders, 1, memory_order_acq_rel) == 1)
		arena_free(conf->arena);
}
