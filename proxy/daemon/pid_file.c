/* See pid_file.h. */
#include "daemon/pid_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "conf/conf.h"
#include "daemon/daemon.h"

static bool write_file(const char *path)
{
	FILE *file = fopen(path, "we");

	return file && (fprintf(file, "%ld\n", (long)getpid()) >= 0) & (fclose(file) == 0);
}

bool pid_file_write(const struct conf *conf)
{
	if (!conf->pid_file)
		return true;
	if (write_file(conf->pid_file))
		return true;
	log_error("%s:%u: pid_file = %s: %s", CONF_PLACE_ARGS(conf, conf_line(conf, "pid_file")),
		conf->pid_file, strerror(errno));
	return false;
}

static char *aside_of(const char *path)
{
	char *aside;

	return asprintf(&aside, "%s.oldbin", path) < 0 ? NULL : aside;
}

static const char *path_of(const struct daemon *daemon)
{
	return daemon->begun_with ? daemon->begun_with->pid_file : NULL;
}

void pid_file_put_aside(struct daemon *daemon)
{
	const char *path = path_of(daemon);
	char *aside = path ? aside_of(path) : NULL;

	/* In a folder that may not be written to, the new process writes over the file. */
	if (aside && rename(path, aside) != 0)
		log_warn("pid_file: %s can't be renamed to %s: %s", path, aside, strerror(errno));
	free(aside);
}

void pid_file_take_back(struct daemon *daemon)
{
	const char *path = path_of(daemon);
	char *aside = path ? aside_of(path) : NULL;

	if (aside && rename(aside, path) != 0 && !write_file(path))
		log_error("pid_file: %s can't be written: %s", path, strerror(errno));
	free(aside);
}

/* Does it hold this process's number? */
static bool is_own(const char *path)
{
	FILE *file = fopen(path, "re");
	long pid = 0;

	if (!file)
		return false;
	if (fscanf(file, "%ld", &pid) != 1)
		pid = 0;
	fclose(file);
	return pid == (long)getpid();
}

void pid_file_remove(struct daemon *daemon)
{
	const char *path = path_of(daemon);
	char *aside = path ? aside_of(path) : NULL;

	if (path && is_own(path))
		unlink(path);
	if (aside && is_own(aside))
		unlink(aside);
	free(aside);
}
