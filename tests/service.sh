#!/bin/sh
# What is installed for systemd and logrotate is right, as far as their own tools can tell. TAP.
cd "${top_srcdir:-.}" || exit 1
: "${SLUICE:=build/sluice}" "${top_builddir:=build}"
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
count=0 failed=0

result() { # result STATUS TITLE OUTPUT-FILE
	count=$((count + 1))
	if [ "$1" = 0 ]; then
		echo "ok $count - $2"
	else
		echo "not ok $count - $2"
		sed 's/^/# /' "$3"
		failed=1
	fi
}

skip() { # skip TITLE WHY
	count=$((count + 1))
	echo "ok $count - $1 # SKIP $2"
}

# The unit as it is installed, but with the program of this build.
make -s -C "$top_builddir" etc/sluice.service >/dev/null || exit 1
sed -e "s|^\(ExecStart[a-zA-Z]*=\)[^ ]*/sluice |\1$SLUICE |" -e "s|^\(ExecReload=\)[^ ]*/sluice |\1$SLUICE |" \
	"$top_builddir/etc/sluice.service" >"$folder/sluice.service"
cp etc/sluice.socket "$folder/"

if command -v systemd-analyze >/dev/null; then
	systemd-analyze verify --man=no "$folder/sluice.service" "$folder/sluice.socket" >"$folder/out" 2>&1
	status=$?
	grep -E "^$folder|sluice\.(service|socket)" "$folder/out" >"$folder/ours"
	[ -s "$folder/ours" ] && status=1
	result "$status" "systemd-analyze verify" "$folder/out"
	# 0 is closed, 10 is open. What remains: it listens to the world, and may bind low ports.
	systemd-analyze security --offline=yes --no-pager --threshold=20 "$folder/sluice.service" >"$folder/out" 2>&1
	status=$?
	if grep -q "unrecognized option" "$folder/out"; then
		skip "systemd-analyze security" "no --offline"
	else
		result "$status" "systemd-analyze security: exposure of at most 2.0" "$folder/out"
	fi
else
	skip "systemd-analyze verify" "no systemd-analyze"
	skip "systemd-analyze security" "no systemd-analyze"
fi

if command -v systemd-sysusers >/dev/null; then
	mkdir -p "$folder/root/etc"
	systemd-sysusers --root="$folder/root" "$PWD/etc/sluice.sysusers" >"$folder/out" 2>&1 &&
		grep -q '^sluice:' "$folder/root/etc/passwd"
	result $? "systemd-sysusers makes the user" "$folder/out"
else
	skip "systemd-sysusers makes the user" "no systemd-sysusers"
fi

if command -v systemd-tmpfiles >/dev/null && [ "$(id -u)" = 0 ] && [ -f "$folder/root/etc/passwd" ]; then
	systemd-tmpfiles --root="$folder/root" --create "$PWD/etc/sluice.tmpfiles" >"$folder/out" 2>&1
	[ -d "$folder/root/var/lib/sluice" ] && [ -d "$folder/root/run/sluice" ]
	result $? "systemd-tmpfiles makes the folders" "$folder/out"
else
	skip "systemd-tmpfiles makes the folders" "no systemd-tmpfiles, or not root"
fi

# Only whether logrotate can read it; that SIGUSR1 loses no line is tested by e2e/logs.py.
logrotate=$(command -v logrotate || command -v /usr/sbin/logrotate)
if [ -n "$logrotate" ]; then
	sed -e "s|/var/log/sluice|$folder|" -e '/^\tsu /d' -e "s|create 0640 sluice adm|create 0640|" etc/sluice.logrotate >"$folder/conf"
	"$logrotate" --debug --state "$folder/state" "$folder/conf" >"$folder/out" 2>&1
	status=$?
	grep -qi '^error' "$folder/out" && status=1
	result "$status" "logrotate takes its file" "$folder/out"
else
	skip "logrotate takes its file" "no logrotate"
fi

# The unit's check finds a configuration where it looks: one that commands can ask, and that keeps its counters.
# One that is there stays as it is.
ini=$folder/image$(sed -n 's/^ExecStartPre=.* -c //p' "$top_builddir/etc/sluice.service")
install_it() {
	make -s -C "$top_builddir" install-data DESTDIR="$folder/image" >"$folder/out" 2>&1
}
install_it && "$SLUICE" check --dump -c "$ini" >"$folder/dump" 2>"$folder/out" && grep -q '^\[admin\]' "$folder/dump" &&
	grep -q '^state = /var/lib/sluice' "$folder/dump"
result $? "make install puts the unit's ini, with [admin] and state" "$folder/out"
echo "# an administrator's" >"$ini"
install_it && [ "$(cat "$ini")" = "# an administrator's" ]
result $? "and leaves one that is there" "$folder/out"
echo "1..$count"
exit $failed
