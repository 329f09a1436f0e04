#!/usr/bin/env python3
"""Which claims fail when the code is wrong?

    docs/tools/mutate.py                         make every change of lab/study, run the experiments, record
                                                 what failed
    docs/tools/mutate.py WORD ...                only the changes whose file or words have one of these
    docs/tools/mutate.py --only 'rahm-*'         only these experiments
    docs/tools/mutate.py --bench                 make the changes of lab/bench that are not recorded, the
                                                 shortest first (--short: only those of at most a minute)
    docs/tools/mutate.py --bench --list          how far each is, and how long a run takes
    docs/tools/mutate.py --bench --build-only    build the program, which takes a quarter of an hour
    docs/tools/mutate.py --bench --binary FILE   run a program that was built before; --commit names its
                                                 commit if it does not say one (FILE --version)
    docs/tools/mutate.py --bench --again WORD    run what is recorded of these changes again
    docs/tools/mutate.py --bench --rebase WORD   run the commands of these changes without a change alone, and
                                                 keep what the changes and the fresh seeds said
    docs/tools/mutate.py --bench --fresh 10      run the commands without a change with ten fresh seeds
                                                 (any program will do for --binary)
    docs/tools/mutate.py --check                 exit 1 if a change no longer applies, or a record has no claim
    docs/tools/mutate.py --unproven              the claims that hold and were never seen to fail

| file | question |
|---|---|
| mutations.py | where is a change made, and how are all of them in one copy of the tree? |
| mutate_study.py | which claims of the simulator's experiments fail with a change? |
| mutate_bench.py | which claims of `coscan bench`, which are measured on the engine? |
| mutate_fresh.py | which of these hold with fresh seeds? |
| engine_claims.py | which of these claims are seen to fail? |

The copies and their target folders are in $COSCAN_MUTANTS, by default ~/.cache/coscan/mutants. The
first build of --bench takes dependencies from $CARGO_TARGET_DIR, by default ~/.cache/coscan/target,
by hard links. With --target it builds in the folder that is named instead.
"""

import argparse
import sys

import mutate_bench
import mutate_fresh
import mutate_study
import mutations
import pages


def main(arguments):
    options = parse(arguments)
    if options.check:
        wrong = [*mutate_study.wrong(mutations.ROOT), *mutate_bench.wrong(mutations.ROOT)]
        print("\n".join(wrong), end="\n" if wrong else "", file=sys.stderr)
        return 1 if wrong else 0
    if options.unproven:
        for name, claim in [*mutate_study.unproven(), *mutate_bench.unproven(mutations.ROOT)]:
            print(f"{name}: {claim}")
        return 0
    if options.bench:
        mutate_bench.main(options, mutate_fresh.run)
    else:
        mutate_study.main(options.words, options.only)
    return pages.main([])


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--only", default="*", metavar="EXPERIMENTS")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--unproven", action="store_true")
    parser.add_argument("--bench", action="store_true")
    of_bench = [parser.add_argument(f"--{name}", action="store_true") for name in ("short", "list", "build-only", "again", "rebase")]
    of_bench += [parser.add_argument("--binary", metavar="FILE"), parser.add_argument("--target", metavar="FOLDER"),
                 parser.add_argument("--commit", metavar="COMMIT"), parser.add_argument("--fresh", metavar="SEEDS", type=int)]
    options = parser.parse_args(arguments)
    given = [one.option_strings[0] for one in of_bench if getattr(options, one.dest)]
    if given and not options.bench:
        parser.error(f"{', '.join(given)}: only with --bench")
    if options.fresh and options.again:
        parser.error("--again: not with --fresh; take what is to run again out of the record")
    if options.rebase and (options.fresh or options.again):
        parser.error("--rebase: not with --fresh or --again")
    if options.commit and not options.binary:
        parser.error("--commit: only with --binary; a program that is built here says its own")
    if options.bench and options.only != "*":
        parser.error("--only: not with --bench")
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
