#!/usr/bin/env python3
"""Documents are in agreement with sluice and with each other. TAP.

Each link leads to a file, each anchor to a heading; each ini block has no error, each command and option exists, each
picture is readable in light and dark. A comment on the line before an ini block, which readers do not see, marks it as a
part: `<!-- fragment -->`. It is then completed by the sections that it lacks, and must have no error with them.
"""
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

TOP = os.environ.get('top_srcdir', os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
SLUICE = os.environ.get('SLUICE', os.path.join(TOP, 'build/sluice'))
README_LINES = 180
HACKING_LINES = 110


def find_pages():
    found = ['README.md', 'HACKING.md']
    for root in ('docs', 'etc', 'tests'):
        for folder, _, names in os.walk(os.path.join(TOP, root)):
            found += [os.path.relpath(os.path.join(folder, name), TOP) for name in names if name.endswith('.md')
                      and 'installed' not in folder]
    return sorted(found)


def read(page):
    with open(os.path.join(TOP, page), encoding='utf-8') as file:
        return file.read()


def prose_of(text):
    return re.sub(r'(?ms)^```.*?^```', '', text)


def anchors_of(text):
    """As GitHub and GitLab make them from headings."""
    anchors = set()
    for heading in re.findall(r'(?m)^#+ (.*)$', prose_of(text)):
        anchors.add(re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-'))
    return anchors


def find_broken(page):
    broken = []
    for target in re.findall(r'\]\(([^)\s]+)\)', prose_of(read(page))):
        if re.match(r'https?:', target):
            continue
        path, _, anchor = target.partition('#')
        to = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not os.path.exists(os.path.join(TOP, to)):
            broken.append(f'{page}: {target}: no such file')
        elif anchor and anchor not in anchors_of(read(to)):
            broken.append(f'{page}: {target}: no such heading')
    return broken


def find_unlinked(pages):
    """Pages of docs/ that no other page leads to."""
    linked = set()
    for page in pages:
        for target in re.findall(r'\]\(([^)\s]+)\)', read(page)):
            to = os.path.normpath(os.path.join(os.path.dirname(page), target.partition('#')[0]))
            if to != page:
                linked.add(to)
    return [page for page in pages if page.startswith('docs/') and page not in linked]


def run_sluice(*arguments, **options):
    done = subprocess.run([SLUICE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          timeout=60, **options)
    return done.returncode, done.stdout


# Errors of a part of a configuration, and what completes it.
LACKS = (
    (r'there is no \[listener NAME\]', '[listener added]\nbind = 127.0.0.1:1\n'),
    (r'there is no \[upstream ([^]]+)\]', '[upstream %s]\nserver = 127.0.0.1:2\n'),
    (r'there is no \[limit ([^]]+)\]', '[limit %s]\nrate = 1 per 1s\n'),
    (r'there is no \[route NAME\]', '[upstream added]\nserver = 127.0.0.1:3\n[route added]\nupstream = added\n'),
)


def check_ini(text, is_fragment):
    """What `sluice check` finds wrong. Files and variables that it names are made, as a reader would."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'sluice.ini')
        environment = dict(os.environ)
        for name in re.findall(r'\bfile:([\w.-]+)', text):
            with open(os.path.join(folder, name), 'w', encoding='ascii') as file:
                file.write('0123456789abcdef0123456789abcdef\n')
        for name in re.findall(r'\$\{(\w+)\}', text):
            environment[name] = 'value'
        while True:
            with open(path, 'w', encoding='utf-8') as file:
                file.write(text)
            status, output = run_sluice('check', '-c', path, env=environment)
            added = [section % match.groups() for pattern, section in LACKS
                     for match in list(re.finditer(pattern, output))[:1]] if is_fragment else []
            if status == 0 or not added:
                return '' if status == 0 or 'this sluice was built without it' in output else output.replace(folder + '/', '')
            text += added[0]


def find_wrong_ini(page):
    wrong = []
    text = read(page)
    for block in re.finditer(r'(?ms)^(<!-- fragment -->\n)?```ini\n(.*?)^```', text):
        line = text.count('\n', 0, block.start()) + 1
        wrong += [f'{page}:{line}: {error}' for error in check_ini(block[2], bool(block[1])).splitlines()]
    return wrong


def commands_in(text):
    """The words after `sluice` of each command that a page shows."""
    blocks = re.findall(r'(?ms)^```(\w*)\n(.*?)^```', text)
    lines = [line.removeprefix('$ ') for kind, block in blocks if kind in ('', 'console', 'sh') for line in block.splitlines()
             if kind != 'console' or line.startswith('$ ')]
    spans = re.findall(r'`(sluice [^`]+)`', prose_of(text).replace('\n', ' '))
    for line in lines + spans:
        # What follows two blanks, a comment, an option's end or another command is no part of it.
        for words in re.findall(r'(?:^|[;|&] *)(?:build/)?sluice ([a-z].*)', line):
            yield re.split(r'  |#|;|\|| -- | --$', words)[0].split()


def find_wrong_commands(page, known):
    wrong = []
    for command, *words in commands_in(read(page)):
        if command.rstrip(',') not in known:
            wrong.append(f'{page}: sluice {command}: no such command')
            continue
        _, usage = run_sluice(command.rstrip(','), '--help')
        options = [match[0] for word in words if (match := re.match(r'--[a-z-]+|-[a-z]\b', word))]
        wrong += [f'{page}: sluice {command}: no option {option}' for option in options
                  if not re.search(rf'(?<![\w-]){option}(?![\w-])', usage)]
    return wrong


def find_pictures():
    return [os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(TOP, 'docs'))
            for name in names if name.endswith('.svg')]


def find_wrong_pictures():
    wrong = []
    for path in find_pictures():
        with open(path, encoding='utf-8') as file:
            text = file.read()
        xml.etree.ElementTree.fromstring(text)
        if 'prefers-color-scheme: dark' not in text or '<title' not in text:
            wrong.append(f'{path}: needs a title, and colours for dark')
    return wrong


def main():
    pages = find_pages()
    if not os.access(SLUICE, os.X_OK):
        print(f'Bail out! {SLUICE} is not built')
        return 1
    known = set(re.findall(r'(?m)^(?:usage:|      ) sluice ([a-z-]+)', run_sluice('--help')[1]))
    checks = [
        ('links lead to files and headings', [line for page in pages for line in find_broken(page)]),
        ('each page of docs/ is linked', find_unlinked(pages)),
        ('ini blocks have no error', [line for page in pages for line in find_wrong_ini(page)]),
        ('commands and their options exist', [line for page in pages for line in find_wrong_commands(page, known)]),
        ('pictures have a title and colours for dark', find_wrong_pictures()),
        ('README and HACKING are short', [
            f'{page}: {read(page).count(chr(10))} lines, at most {most}'
            for page, most in (('README.md', README_LINES), ('HACKING.md', HACKING_LINES))
            if read(page).count('\n') > most]),
    ]
    for number, (what, wrong) in enumerate(checks, 1):
        print('%s %u - %s' % ('not ok' if wrong else 'ok', number, what))
        for line in wrong:
            print('# ' + line)
    print('1..%u' % len(checks))
    return 1 if any(wrong for _, wrong in checks) else 0


if __name__ == '__main__':
    sys.exit(main())
