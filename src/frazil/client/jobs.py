"""Which job wrote which table. Only frazil's server knows; Lakekeeper has nothing like it."""

from __future__ import annotations

from frazil.client.answers import WritingJob, WritingJobPage, WrittenTable, WrittenTablePage
from frazil.client.flow import Listing, M, Resource, listing
from frazil.client.naming import NamespaceLike, levels, segment
from frazil.client.paging import pages
from frazil.core.names import check_name


class JobsApi(Resource[M]):
    """The jobs that commits name: Flink's and Spark's by their ids, frazil's by the pipeline's name.

    Another server than frazil's answers NotFound.
    """

    @listing
    def tables(self, kind: str, job_id: str, *, dropped: bool = False) -> Listing[WrittenTable]:
        """The tables of the warehouse that a job wrote: none, if the server does not know the job.

        `kind` is `flink`, `spark` or `frazil`. With `dropped`, also tables that were dropped and not purged.
        """
        path = f"/jobs/{segment(kind)}/{segment(job_id)}/tables"
        query = [("dropped", "true")] if dropped else []
        return pages(self._session.own, path, WrittenTablePage, lambda page: page.tables, query)

    @listing
    def of_table(self, namespace: NamespaceLike, name: str) -> Listing[WritingJob]:
        """The jobs that wrote a table, by kind and id."""
        table = segment(check_name(name, "name"))
        path = f"/namespaces/{segment(*levels(namespace))}/tables/{table}/jobs"
        return pages(self._session.own, path, WritingJobPage, lambda page: page.jobs)
