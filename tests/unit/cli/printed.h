/* What a command prints, and its exit status. */
#ifndef TESTS_UNIT_CLI_PRINTED_H
#define TESTS_UNIT_CLI_PRINTED_H

#define PRINTED_BYTES 8192

struct printed {
	int status;
	char out[PRINTED_BYTES], err[PRINTED_BYTES];
};

/* Calls a command with copies of the words, which NULL ends; the first is the command's own. */
struct printed printed_by(int (*command)(int argc, char **argv), const char *const *words);

#define WORDS(...)                                                                                 \
	(const char *const[])                                                                      \
	{                                                                                          \
		__VA_ARGS__, NULL                                                                  \
	}

/* A file with this text, which lives until the next call. Its path. */
const char *printed_file(const char *text);

#endif
