#!/usr/bin/env python3
"""Each link of the documents leads to a file, and each anchor to a heading; README fits a few screens. TAP."""
import os
import re
import sys

TOP = os.environ.get('top_srcdir', os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
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


def main():
    pages = find_pages()
    checks = [
        ('links lead to files and headings', [line for page in pages for line in find_broken(page)]),
        ('each page of docs/ is linked', find_unlinked(pages)),
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
