#include "printed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define WORDS_MAX 70

/* Sends what goes to `fd` to a file from now on. Returns where it went before. */
static int redirect(int fd, FILE *file)
{
	int before = dup(fd);

	assert_true(before >= 0);
	assert_true(dup2(fileno(file), fd) >= 0);
	return before;
}

static void read_back(int fd, int before, FILE *file, char text[static PRINTED_BYTES])
{
	assert_true(dup2(before, fd) >= 0);
	close(before);
	rewind(file);
	text[fread(text, 1, PRINTED_BYTES - 1, file)] = '\0';
	fclose(file);
}

struct printed printed_by(int (*command)(int argc, char **argv), const char *const *words)
{
	static char copies[WORDS_MAX][256];
	char *argv[WORDS_MAX + 1] = {NULL};
	FILE *out = tmpfile(), *err = tmpfile();
	struct printed printed;
	int argc = 0;

	for (; argc < WORDS_MAX && words[argc]; argc++) {
		snprintf(copies[argc], sizeof(copies[argc]), "%s", words[argc]);
		argv[argc] = copies[argc];
	}
	/* getopt may be in the middle of a word of the last command. */
	optind = 0;
	getopt(1, (char *[]){argv[0], NULL}, "");
	assert_non_null(out);
	assert_non_null(err);
	fflush(stdout);
	int out_before = redirect(STDOUT_FILENO, out), err_before = redirect(STDERR_FILENO, err);
	printed.status = command(argc, argv);
	fflush(stdout);
	read_back(STDOUT_FILENO, out_before, out, printed.out);
	read_back(STDERR_FILENO, err_before, err, printed.err);
	return printed;
}

const char *printed_file(const char *text)
{
	static char path[64];

	if (*path)
		unlink(path);
	strcpy(path, "/tmp/sluice-unit-XXXXXX");
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	return path;
}
