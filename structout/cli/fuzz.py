"""``structout fuzz``: looks for laws that backends break, on one schema, on generated specs or on a corpus."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import attrs
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from structout.backend import BackendInfo
from structout.cli.output import print_error
from structout.cli.reports import BackendResult, as_json, print_result, write_junit
from structout.discovery import Registry
from structout.errors import ErrorKind, GrammarError
from structout.fuzz.campaign import Budget, Campaign
from structout.fuzz.case import Case
from structout.fuzz.cases import MAKERS, any_case, cases_of
from structout.fuzz.child import Child, ChildError
from structout.fuzz.corpus import CorpusError, Example, read
from structout.fuzz.coverage import Coverage
from structout.fuzz.exactness import Exactness, faults_of, measure, shares_by_part
from structout.fuzz.examine import Report
from structout.fuzz.faults import Fault, FaultFolder
from structout.fuzz.known import KnownFaults
from structout.fuzz.oracles import laws_around
from structout.fuzz.target import Target, registry
from structout.result import Err, Ok, Result
from structout.schema import check_schema
from structout.spec import JsonSchema


@attrs.frozen(kw_only=True)
class Options:
    """The options of the command; exactly one of ``schema``, ``generate``, ``corpus`` and ``case`` is given."""

    schema: Path | None
    generate: bool
    corpus: Path | None
    case: Path | None
    backends: Sequence[str]
    plugins: Sequence[str]
    against: str | None
    include_known: bool
    max_examples: int
    seed: int
    time_s: float
    faults: Path
    junit: Path | None


def run(options: Options, *, to_json: bool) -> int:
    """Runs the campaign on each backend. Returns the exit code: 0 all held, 1 a law is broken, 2 it could not begin."""
    console = Console(stderr=to_json)
    match _prepared(options):
        case Err(error):
            return print_error(error, as_json=to_json)
        case Ok(work):
            results = [_on_backend(work, backend, options, console) for backend in work.backends]
    if to_json:
        print(json.dumps(as_json(results, options.seed, work.coverage), indent=2, ensure_ascii=False))
    elif options.generate:
        console.print("\n".join(work.coverage.lines()), markup=False, highlight=False, soft_wrap=True)
    if options.junit:
        write_junit(options.junit, results)
    return 1 if any(result.faults or result.problem for result in results) else 0


@attrs.frozen
class _Work:
    """What is to be done, once it is known to be possible."""

    backends: tuple[str, ...]
    infos: Mapping[str, BackendInfo]
    spec: JsonSchema | None = None
    examples: tuple[Example, ...] = ()
    saved: Fault | None = None
    coverage: Coverage = attrs.field(factory=Coverage)


def _prepared(options: Options) -> Result[_Work, GrammarError]:
    """The work, or what is wrong with the options."""
    modes = [options.schema is not None, options.generate, options.corpus is not None, options.case is not None]
    if sum(modes) != 1:
        return _bad("give a schema's file, or one of --generate, --corpus and --case")
    try:
        known = registry(options.plugins)
    except Exception as exc:
        return _bad(f"--plugin: {exc}")
    return _chosen(options, known).and_then(lambda work: _loaded(options, work))


def _chosen(options: Options, known: Registry) -> Result[_Work, GrammarError]:
    """The backends that were named, or else all that are made for serving and take what they would be tested with."""
    testable = {"json_schema"} if options.schema else MAKERS.keys()
    able = [each.info for each in known.backends.values() if each.info.spec_kinds & testable]
    backends = tuple(options.backends) or tuple(info.id for info in able if not info.by_name_only)
    if not backends:
        return _bad("no backend is installed that could be tested")
    infos = {}
    for name in (*backends, *filter(None, [options.against])):
        match known.find(name):
            case Err() as error:
                return error
            case Ok(found):
                infos[name] = found.info
        if not (options.corpus or infos[name].spec_kinds & testable):
            takes = ", ".join(sorted(infos[name].spec_kinds))
            return _bad(f"{name} takes {takes} only, and nothing of that can be made")
    return Ok(_Work(backends, infos))


def _loaded(options: Options, work: _Work) -> Result[_Work, GrammarError]:
    """The work with what its files hold."""
    try:
        if options.schema:
            spec = JsonSchema(options.schema.read_text(encoding="utf-8"))
            error = check_schema(spec)
            return Err(error) if error else Ok(attrs.evolve(work, spec=spec))
        if options.corpus:
            return Ok(attrs.evolve(work, examples=tuple(read(options.corpus))))
        if options.case:
            saved = Fault.from_json(json.loads(options.case.read_text(encoding="utf-8")))
            return Ok(attrs.evolve(work, saved=saved))
    except (OSError, CorpusError) as exc:
        return _bad(str(exc))
    except (ValueError, KeyError, TypeError) as exc:
        return _bad(f"{options.case or options.schema} is not what it should be: {type(exc).__name__}: {exc}")
    return Ok(work)


def _bad(message: str) -> Err[GrammarError]:
    return Err(GrammarError(kind=ErrorKind.INVALID_SPEC, message=message))


def _on_backend(work: _Work, backend: str, options: Options, console: Console) -> BackendResult:
    def child_of(name: str) -> Child:
        plugins = tuple(options.plugins)
        return stack.enter_context(Child(Target(name, plugins), vocabulary="bytes" if options.corpus else "small"))

    with ExitStack() as stack, _bar(backend) as bar:
        try:
            if options.corpus:
                result = _replayed(child_of(backend), work, bar)
            else:
                known = None if options.include_known else work.infos[backend].known_faults
                campaign = Campaign(
                    child_of(backend),
                    Budget(options.max_examples, options.time_s),
                    known=KnownFaults.read(known),
                    against=child_of(options.against) if options.against else None,
                )
                result = _searched(campaign, work, options, bar)
        except ChildError as exc:
            result = BackendResult(backend, problem=str(exc))
    folder = FaultFolder(options.faults)
    for fault in result.faults:
        folder.save(fault)
    print_result(console, result, lambda fault: folder.command(fault, tuple(options.plugins), options.against))
    return result


def _replayed(child: Child, work: _Work, bar: "_Bar") -> BackendResult:
    """The corpus, one example after the other."""
    kinds = work.infos[child.target.backend].spec_kinds
    examples = [example for example in work.examples if example.spec.kind in kinds]
    verdicts: list[Exactness] = []
    for verdict in measure(child, examples):
        verdicts.append(verdict)
        bar(len(verdicts) / len(examples))
    pairs = list(zip(examples, verdicts, strict=True))
    return BackendResult(
        child.target.backend,
        examined=len(pairs),
        faults=tuple(faults_of(child.target.backend, pairs)),
        parts=shares_by_part(pairs),
    )


def _searched(campaign: Campaign, work: _Work, options: Options, bar: "_Bar") -> BackendResult:
    """Saved faults first, then generated cases until the budget is spent."""

    def on_case(case: Case, _report: Report) -> None:
        bar(max(campaign.tally.examined / options.max_examples, campaign.spent))
        if isinstance(case.spec, JsonSchema) and case.spec.dialect is work.coverage.dialect:
            work.coverage.add(case.spec.schema())

    backend = campaign.child.target.backend
    campaign.on_case = on_case
    if work.saved:
        campaign.replay([work.saved.case], laws_around(work.saved.law))
    else:
        _replay_saved(campaign, FaultFolder(options.faults).of(backend), work.spec)
        campaign.search(
            cases_of(work.spec) if work.spec else any_case(work.infos[backend].spec_kinds), seed=options.seed
        )
    tally = campaign.tally
    return BackendResult(
        backend,
        examined=tally.examined,
        compiled=tally.compiled,
        refused=dict(tally.refused),
        faults=tuple(tally.faults),
        counts=dict(tally.counts),
        known=dict(tally.known),
        slowest_fill_s=tally.slowest_fill_s,
    )


def _replay_saved(campaign: Campaign, saved: Iterator[Fault], spec: JsonSchema | None) -> None:
    for fault in saved:
        if spec is None or fault.case.spec.key == spec.key:
            campaign.replay([fault.case], laws_around(fault.law))


class _Bar:
    """Shows how much of the budget is spent."""

    def __init__(self, bar: Progress, title: str) -> None:
        self._bar = bar
        self._task = bar.add_task(title, total=1.0)

    def __call__(self, share: float) -> None:
        self._bar.update(self._task, completed=min(1.0, share))


@contextmanager
def _bar(backend: str) -> Iterator[_Bar]:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        yield _Bar(bar, backend)
