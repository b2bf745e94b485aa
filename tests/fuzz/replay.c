/*
 * A fuzz target as a test: runs it over the files of its corpus and reports in TAP.
 *
 *   fuzz_NAME [FILE | FOLDER ...]     default: tests/fuzz/corpus/NAME
 */
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned count;

static bool run_file(const char *path)
{
	FILE *in = fopen(path, "rb");
	uint8_t *data = NULL;
	size_t size = 0, room = 0;
	bool good;

	while (in) {
		if (size == room) {
			room = room ? room * 2 : 4096;
			data = realloc(data, room);
			if (!data)
				abort();
		}
		size_t got = fread(data + size, 1, room - size, in);

		if (got == 0)
			break;
		size += got;
	}
	good = in && !ferror(in);
	if (in)
		fclose(in);
	if (good) {
		/* Exactly as large as it is, so that the sanitizer sees a read beyond. */
		uint8_t *exact = malloc(size ? size : 1);

		if (!exact)
			abort();
		if (size)
			memcpy(exact, data, size);
		LLVMFuzzerTestOneInput(exact, size);
		free(exact);
	}
	free(data);
	printf("%s %u - %s\n", good ? "ok" : "not ok", ++count, path);
	return good;
}

static int is_visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static bool run(const char *path)
{
	struct dirent **entries;
	struct stat about;
	bool good = true;
	int found;

	if (stat(path, &about) != 0) {
		printf("not ok %u - %s: %s\n", ++count, path, strerror(errno));
		return false;
	}
	if (!S_ISDIR(about.st_mode))
		return run_file(path);
	found = scandir(path, &entries, is_visible, alphasort);
	for (int i = 0; i < found; i++) {
		char *inner = NULL;

		if (asprintf(&inner, "%s/%s", path, entries[i]->d_name) < 0)
			abort();
		good = run(inner) && good;
		free(inner);
		free(entries[i]);
	}
	if (found >= 0)
		free(entries);
	return good && found >= 0;
}

int main(int argc, char **argv)
{
	const char *top = getenv("top_srcdir"), *name = strstr(argv[0], "fuzz_");
	char *path = NULL;
	bool good = true;

	setvbuf(stdout, NULL, _IOLBF, 0); /* what ran last is known when one ends us */
	for (int i = 1; i < argc; i++)
		good = run(argv[i]) && good;
	if (argc < 2) {
		for (const char *next = name; next; next = strstr(name + 1, "fuzz_"))
			name = next;
		if (asprintf(&path, "%s/tests/fuzz/corpus/%s", top ? top : ".",
			    name ? name + strlen("fuzz_") : "") < 0)
			abort();
		good = run(path);
		free(path);
	}
	printf("1..%u\n", count);
	return good ? 0 : 1;
}
