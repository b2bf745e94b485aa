/* A folder for a table's files, of each test that names these as its set-up and teardown. */
#ifndef TESTS_UNIT_THROTTLE_FOLDER_H
#define TESTS_UNIT_THROTTLE_FOLDER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "throttle-test-XXXXXX";

static int make_folder(void **state)
{
	(void)state;
	memcpy(folder + sizeof(folder) - 7, "XXXXXX", 6);
	return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
	static const char *const names[] = {"throttle.table", "throttle.next",
		"throttle.table.set-aside", "throttle.next.set-aside"};
	char path[128];

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		unlink(path);
	}
	return rmdir(folder);
}

#endif
