#!/usr/bin/env python3
"""Plants mistakes in copies of libthrottle, one at a time: the schedule explorer must see each, or
a unit test that puts there what a stopped thread leaves.

   mutants.py [NAME...]     CC, top_srcdir, EXPLORE_SCENARIOS
"""
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

TOP = pathlib.Path(os.environ.get("top_srcdir", ".")).resolve()
CC = os.environ.get("CC", "cc").split()
SCENARIOS = os.environ.get("EXPLORE_SCENARIOS", "20000")
EXPLORE = "tests/stress/explore"
UNIT = "tests/unit/throttle"

# name, profile (or unit test: "..._test") that sees it, file, text, text in its place
MUTANTS = [
    ("a late writer of a slot does not look at the head again", "refunds", "ring.c",
     "if (!head_still(e, head))\n\t\t\treturn false;\n\t\tif (old == value)",
     "if (old == value)"),
    ("a take does not finish the last one's slots", "takes", "ring.c",
     "if (is_claim_unwritten(s, e, &v))\n\t\t\tfinish_claim(s, e, head);\n\t\tif (judge(",
     "if (judge("),
    ("after a refund the head may come back", "steps_test", "ring.c",
     "v->type = RING_CLEAN;\n\tv->position = v->hole;", "v->type = RING_OPEN;\n\tv->position = v->hole;"),
    ("a hole moves on by a relaxed swap", "refunds", "ring.c",
     "&e->head, &head, pack(s, &v), memory_order_acq_rel, memory_order_relaxed);\n}\n\nbool ring_is_idle",
     "&e->head, &head, pack(s, &v), memory_order_relaxed, memory_order_relaxed);\n}\n\nbool ring_is_idle"),
    ("a hole moves on before its slot is written", "refunds", "ring.c",
     "if (!write_slot(s, e, v.hole, value, head))\n\t\t\treturn;", "(void)value;"),
    ("a gap that is closed from the older side keeps its place", "refunds", "ring.c",
     "? RING_CLEAN : RING_OPEN;\n\tv->hole = 0;\n\tv->fill--;", "? RING_CLEAN : RING_OPEN;\n\tv->hole = 0;"),
    ("a refund drops the newest slot whichever it is", "refunds", "ring.c",
     "if (after(s, hole, 1) != v->position)\n\t\treturn;", "hole = before(s, v->position, 1);"),
    ("the quick way does not look whether the last slot is written", "takes", "ring_short.h",
     "& SHORT_INDEX_MASK) != 0)\n\t\treturn false;", "& SHORT_INDEX_MASK) > SHORT_INDEX_MASK)\n\t\treturn false;"),
    ("a thread that slept judges by its old time", "takes", "entry.h",
     "return now + TIME_LAG_NS < latest ? latest - TIME_LAG_NS : now;", "return (void)latest, now;"),
    ("a refund of pacing looks at nobody's later charge", "kinds", "gcra.c",
     "return drained <= latest || at <= latest ? 0 : least(at - latest, all);", "return (void)at, all;"),
    ("a refund of pacing forgets what others gave back", "afterwards_test", "gcra.c",
     "atomic_fetch_add_explicit(given_of(e), back, memory_order_relaxed);", ""),
    ("a tombstone of another insertion is born", "steps_test", "section.c",
     "|| tombstone_sequence(head) != word_sequence(word) ||", "||"),
    ("in flight, the overflow is not counted", "table_test", "take.c",
     "(j->plan.head & CONCURRENCY_SHARED) != 0)", "(j->plan.head & CONCURRENCY_SHARED) == 1)"),
    ("a bucket is split without being frozen", "steps_test", "section_move.c",
     "section_freeze_bucket(s->below, bucket / 2, true);", ""),
    ("a bucket that is only frozen is taken for one with callers", "splits-reloads-kills", "section.c",
     "(section_load_word(s, bucket) & ~WORD_FROZEN) != 0", "section_load_word(s, bucket) != 0"),
    ("what has left the window comes back with a longer one", "reload_test", "window.c",
     "const uint64_t past = quantum_of(s, time_before_move(now));", "const uint64_t past = 0;"),
    ("a head of a wrap before is taken for one of now", "wraps_test", "window.c",
     "return stamp != 0 && stamp_for(s, v->quantum) > stamp + 1;", "return (void)stamp, false;"),
    ("a charge does not see whose the entry is", "full", "take.c",
     "if (place_holds(&j->place) && (how", "if ((how"),
    ("a birth forgets what the overflow has in use", "full", "section.c",
     "birth.used = overflow_used(s, number, now, &at);\n", "birth.used = at = 0;\n"),
    ("a ring is made without a stamp", "old-full", "ring.c",
     "if (s->first_slot > 0)\n\t\tmake_stamp(s, e, birth);\n", "(void)make_stamp;\n"),
    ("a ring's slots are taken for written by what its last caller left", "steps_test", "ring.c",
     "if (n > 0 && !is_claim_unwritten(s, e, &v))\n\t\tv.tick++;\n", ""),
    ("a ring is made without a stamp, in a table that grows", "old-grows", "ring.c",
     "if (s->first_slot > 0)\n\t\tmake_stamp(s, e, birth);\n", "(void)make_stamp;\n"),
    ("a ring is made without a stamp, in a table that more callers come to", "old-reloads", "ring.c",
     "if (s->first_slot > 0)\n\t\tmake_stamp(s, e, birth);\n", "(void)make_stamp;\n"),
    ("a charge of the overflow does not look at the word again", "full", "take.c",
     "memory_order_seq_cst)) == word_insertion(j->place.word);",
     "memory_order_seq_cst)) != UINT64_MAX;"),
    ("a birth looks at the overflow with acquire only", "full", "section.c",
     "if (atomic_load_explicit(&e->head, memory_order_seq_cst) == 0 ||",
     "if (atomic_load_explicit(&e->head, memory_order_acquire) == 0 ||"),
    ("lanes are not cleared at opening", "kills", "generation.c",
     "concurrency_clear_lanes(section_entry(s, bucket, way), *(unsigned *)argument);", "(void)argument;"),
    ("an opening repairs what another process is changing", "processes", "generation.c",
     "g->was_alone ? visit_check : visit_finish", "visit_check"),
    ("time goes on from what is newest when the opening ends", "processes", "table_open.c",
     "table_set_offset(t, now_ns, newest > TIME_LAG_NS ? newest - TIME_LAG_NS : 0);",
     "table_set_offset(t, now_ns, (newest = newest_now));"),
    ("the folder is not locked", "processes", "table_open.c",
     "error = store_lock(t->folder, true, lock);", "error = 0;"),
    ("several are charged without giving back", "takes", "take.c",
     "if (o->violated && !o->shadow) {\n\t\t\t\tgive_back(a, order, n);",
     "if (o->violated && !o->shadow) {"),
    ("a move freezes nothing", "reloads", "section_move.c",
     "if (!word_is_split(section_freeze_bucket(old, m->bucket, false))) {", "{"),
    ("a move counts by the time of its caller", "reloads", "section_move.c",
     "return newest + 2 * TIME_STEP_NS;", "return noted > newest ? noted : newest;"),
    ("a move that is done is gone on with elsewhere", "reloads-kinds", "section_move.c",
     "m->is_done = is_bucket_done(m);", "(void)is_bucket_done;"),
    ("a move leaves the overflow", "reloads-full", "section_move.c",
     "write_image(&m->to->shape, section_entry(m->to, m->bucket, BUCKET_WAYS), &image);", "(void)image;"),
    ("a bucket that was split is moved by its level alone", "grows-reloads", "section_move.c",
     "if (!word_is_split(section_freeze_bucket(old, m->bucket, false))) {",
     "section_freeze_bucket(old, m->bucket, false);\n\t{"),
    ("a caller is looked for before its bucket is moved", "reloads-kinds", "section.c",
     "if (!is_moved && (section_move_bucket(s, number) || section_is_moved(s, number)))",
     "if (section_move_bucket(s, number))"),
    ("a thread begins in a table that is closed", "reloads", "generation.c",
     "return !(latest & LATEST_CLOSED);", "return true;"),
    ("a closed table is seen before the newer one is", "reloads", "generation.c",
     "uint64_t latest = atomic_load_explicit(g->latest, memory_order_acquire);",
     "uint64_t latest = atomic_load_explicit(g->latest, memory_order_relaxed);"),
    ("a change dates a quantum at its beginning", "reloads", "window.c",
     "end = ((uint64_t)q + 1) * s->quantum - 1;", "end = (uint64_t)q * s->quantum;"),
    ("a reset leaves the slots of a divided ring", "resets", "window.c",
     "return pack_wiping(s, quantum_of(s, plan->at));", "return pack(s, quantum_of(s, plan->at), 0);"),
]


def compile_file(source, target, tree, explored):
    command = CC + ["-std=gnu11", "-O1", "-g", "-w", "-D_GNU_SOURCE", f"-I{tree}", f"-I{TOP}"]
    if explored:
        command += ["-include", str(TOP / EXPLORE / "atomics.h")]
    subprocess.run(command + ["-c", "-o", str(target), str(source)], check=True)


def build(work, tree, files, base):
    """Objects of `files` of the library in the tree, with all others from `base`."""
    objects = dict(base)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        jobs = []
        for name in files:
            objects[name] = work / (name + ".o")
            jobs.append(pool.submit(compile_file, tree / "throttle" / name, objects[name], tree, True))
        for job in jobs:
            job.result()
    return objects


def link(objects, program):
    subprocess.run(CC + ["-o", str(program)] + [str(o) for o in objects.values()], check=True)


def is_unit(profile):
    return profile.endswith("_test")


def run_unit(tree, test, work, library):
    """What failed of the unit test, with the library in the tree."""
    objects = {}
    for name in library + ["store.c"]:
        objects[name] = work / ("unit_" + name + ".o")
        compile_file(tree / "throttle" / name, objects[name], tree, False)
    program = work / test
    subprocess.run(CC + ["-std=gnu11", "-O1", "-w", "-D_GNU_SOURCE", f"-I{tree}", f"-I{TOP}", "-o", str(program),
                         str(TOP / "tests/unit/suite.c"), str(TOP / UNIT / (test + ".c"))] +
                   [str(o) for o in objects.values()] +
                   ["-lcmocka", "-lpthread"], check=True)
    try:
        done = subprocess.run([str(program)], cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=600, check=False)
    except subprocess.TimeoutExpired:
        return "no end", True
    failed = sorted({line.split(" - ")[-1] for line in done.stdout.splitlines() if line.startswith("not ok")})
    return f"{test}: {' '.join(failed) or done.returncode}", done.returncode != 0


def explore(program, profile, scenarios=SCENARIOS):
    """What it printed, and whether it saw something wrong."""
    try:
        done = subprocess.run([str(program), "--profile", profile, "--scenarios", scenarios,
                               "--shrink", "0", "--trace", "0"], stdout=subprocess.PIPE,
                              text=True, timeout=600, check=False)
    except subprocess.TimeoutExpired:
        return "no end", False
    for line in done.stdout.splitlines():
        if line.startswith("# profile"):
            return line[2:], True
    if done.returncode < 0:
        return f"signal {-done.returncode}", True
    return "nothing", False


def mutate(work, number, mutant, library, base):
    name, profile, file, text, replacement = mutant
    tree = work / f"mutant{number}"
    shutil.copytree(TOP / "throttle", tree / "throttle")
    path = tree / "throttle" / file
    source = path.read_text()
    if source.count(text) != 1:
        return f"the text to replace is in {file} {source.count(text)} times", False
    path.write_text(source.replace(text, replacement))
    if is_unit(profile):
        said, seen = run_unit(tree, profile, tree, library)
        shutil.rmtree(tree)
        return said, seen
    files = [file] if file.endswith(".c") else library
    objects = tree / "objects"
    objects.mkdir()
    link(build(objects, tree, files, base), tree / "explore")
    said, seen = explore(tree / "explore", profile)
    shutil.rmtree(tree)
    return said, seen


def main():
    wanted = [m for m in MUTANTS if not sys.argv[1:] or m[0] in sys.argv[1:]]
    failed = 0
    print(f"1..{len(wanted)}")
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        library = sorted(p.name for p in (TOP / "throttle").glob("*.c") if p.name != "store.c")
        base = build(work, TOP, library, {})
        for source in sorted(set((TOP / EXPLORE).glob("*.c")) - {TOP / EXPLORE / "damage.c"}):
            base["explore/" + source.name] = work / ("explore_" + source.name + ".o")
            compile_file(source, base["explore/" + source.name], TOP, False)
        link(base, work / "explore")
        right = {p: not (run_unit(TOP, p, work, library) if is_unit(p) else explore(work / "explore", p, "100"))[1]
                 for p in {m[1] for m in wanted}}
        for number, mutant in enumerate(wanted, 1):
            if not right[mutant[1]]:
                print(f"ok {number} - {mutant[0]} # SKIP {mutant[1]} has faults without it")
                continue
            said, seen = mutate(work, number, mutant, library, base)
            failed |= not seen
            print(f"{'ok' if seen else 'not ok'} {number} - {mutant[0]}: {said}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
