//! How do the rows of one file become rows of the scan?
//!
//! The scan's predicate and projection are written for the table: for partition columns that are
//! in no file, for columns that this file may lack, for types that it may store differently. Here
//! both are rewritten for the file, as DataFusion's own Parquet opener does it (literals for
//! partition columns, then the expression adapter, then the simplifier). The predicate is then
//! split into conjuncts, which are later proved, used for pruning and evaluated one by one.
//! Similar files share one plan.
//! Not here: statistics (`prune/`), evaluation (`pipeline/`).
//! I1: a row of the file is in the scan's output iff every conjunct is true for it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use coscan_storage::pool::{ColumnRequest, TableFile};
use coscan_storage::{INTERVAL, is_interval};
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::physical_plan::parquet::{
    Int96Coercer, apply_file_schema_type_coercions,
};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::expressions::{DynamicFilterTracking, Literal};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::simplifier::PhysicalExprSimplifier;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_expr_adapter::rewrite::rewrite_input_file_name_in_projection;
use datafusion::physical_expr_adapter::{
    DefaultPhysicalExprAdapterFactory, PhysicalExprAdapterFactory, replace_columns_with_literals,
};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::schema::types::TypePtr;

use super::compact::{compact, refer_to_dictionaries};
use super::wide_keys::with_wide_keys;

/// The most conjuncts of a file, because each chunk keeps a set of them in a `u64`. The last one
/// is the conjunction of all further ones.
pub(crate) const CONJUNCTS_MAX: usize = 64;

/// The predicate and the projection of a scan, in terms of the table.
#[derive(Clone)]
pub(crate) struct TablePlan {
    pub(crate) schema: TableSchema,
    pub(crate) projection: ProjectionExprs,
    pub(crate) predicate: Option<Arc<dyn PhysicalExpr>>,
    adapters: Arc<dyn PhysicalExprAdapterFactory>,
    int96: Option<(arrow::datatypes::TimeUnit, Option<Arc<str>>)>,
}

/// Predicate and projection in terms of one file.
pub(crate) struct FilePlan {
    /// The file's columns as they are decoded; root columns, in the file's order.
    pub(crate) schema: SchemaRef,
    /// Per column: the form in which it is decoded and kept (`compact.rs`).
    pub(crate) kept: Vec<ColumnRequest>,
    /// The conjuncts of the predicate, over `schema`. At most [`CONJUNCTS_MAX`].
    pub(crate) conjuncts: Vec<Conjunct>,
    /// The output columns, over `schema`.
    pub(crate) projection: Vec<Arc<dyn PhysicalExpr>>,
    /// Whether no row of the file can be in the output.
    pub(crate) empty: bool,
}

/// The plans of the files of one scan. Files with equal [`Alike`]s share one.
pub(crate) struct FilePlans<'a> {
    table: &'a TablePlan,
    /// The partition columns that the scan uses.
    partitions: BTreeSet<usize>,
    /// Whether every file has a separate plan, because the scan returns the names of files.
    by_name: bool,
    made: HashMap<Alike, Arc<FilePlan>>,
}

/// All properties of a file that its plan depends on, if the scan does not return names of files.
#[derive(PartialEq, Eq, Hash)]
struct Alike {
    /// The address of its `FileSchema`, which the file keeps alive.
    schema: usize,
    /// The schema that the planner gave the file in place of its own.
    given: Option<SchemaRef>,
    /// The values of the partition columns that the scan uses.
    values: Vec<ScalarValue>,
    /// Per leaf: whether it is text whose pages all refer to dictionaries.
    refers: Vec<bool>,
}

impl<'a> FilePlans<'a> {
    pub(crate) fn new(table: &'a TablePlan) -> Self {
        let exprs = table.projection.iter().map(|projected| &projected.expr);
        let exprs = exprs.chain(&table.predicate);
        let first = table.schema.file_schema().fields().len();
        let named = exprs.flat_map(collect_columns);
        let partitions = named.filter_map(|column| column.index().checked_sub(first));
        Self {
            partitions: partitions.collect(),
            by_name: names_files(&table.projection),
            made: HashMap::new(),
            table,
        }
    }

    /// The plan for one file. `meta` is the file as the planner listed it.
    ///
    /// # Errors
    /// If the file's columns cannot be converted to the table's.
    pub(crate) fn of(&mut self, meta: &PartitionedFile, file: &TableFile) -> Result<Arc<FilePlan>> {
        let refers = refer_to_dictionaries(file);
        if self.by_name {
            return Ok(Arc::new(self.table.for_file(meta, file, &refers)?));
        }
        let values = self.partitions.iter();
        let alike = Alike {
            schema: Arc::as_ptr(file.schema()).addr(),
            given: meta.arrow_schema.clone(),
            values: values
                .filter_map(|at| meta.partition_values.get(*at).cloned())
                .collect(),
            refers,
        };
        if let Some(known) = self.made.get(&alike) {
            return Ok(Arc::clone(known));
        }
        let made = Arc::new(self.table.for_file(meta, file, &alike.refers)?);
        self.made.insert(alike, Arc::clone(&made));
        Ok(made)
    }
}

/// Whether the projection returns the names of files.
fn names_files(projection: &ProjectionExprs) -> bool {
    let named = rewrite_input_file_name_in_projection(projection.clone(), "");
    !named.is_ok_and(|named| named == *projection)
}

/// One conjunct of the predicate.
pub(crate) struct Conjunct {
    pub(crate) expr: Arc<dyn PhysicalExpr>,
    /// Whether the conjunct contains a dynamic filter, which may change while the scan runs.
    pub(crate) dynamic: bool,
}

impl TablePlan {
    /// The plan of a Parquet scan.
    ///
    /// # Errors
    /// `Configuration` if the session's INT96 options cannot be understood.
    pub(crate) fn new(
        config: &FileScanConfig,
        options: &datafusion::common::config::TableParquetOptions,
    ) -> Result<Self> {
        let source = config.file_source();
        let schema = source.table_schema().clone();
        let projection = source.projection().cloned().unwrap_or_else(|| {
            let all: Vec<usize> = (0..schema.table_schema().fields().len()).collect();
            ProjectionExprs::from_indices(&all, schema.table_schema())
        });
        Ok(Self {
            projection,
            predicate: source.filter(),
            adapters: config
                .expr_adapter_factory
                .clone()
                .unwrap_or_else(|| Arc::new(DefaultPhysicalExprAdapterFactory)),
            int96: int96(options)?,
            schema,
        })
    }

    /// The plan that reads the same columns and evaluates no expression.
    pub(crate) fn of_whole_columns(&self) -> Self {
        let filters = self.predicate.iter();
        let exprs = self.projection.iter().map(|p| &p.expr).chain(filters);
        let columns: BTreeSet<usize> = exprs
            .flat_map(collect_columns)
            .map(|column| column.index())
            .collect();
        let columns: Vec<usize> = columns.into_iter().collect();
        Self {
            projection: ProjectionExprs::from_indices(&columns, self.schema.table_schema()),
            predicate: None,
            ..self.clone()
        }
    }

    /// The plan for one file. `refers`: [`refer_to_dictionaries`] of it.
    fn for_file(
        &self,
        meta: &PartitionedFile,
        file: &TableFile,
        refers: &[bool],
    ) -> Result<FilePlan> {
        let schema = self.physical_schema(meta, file)?;
        let mut projection = self.projection.clone();
        let mut predicate = self.predicate.clone();

        let literals: HashMap<String, ScalarValue> = self
            .schema
            .table_partition_cols()
            .iter()
            .zip(&meta.partition_values)
            .map(|(field, value)| (field.name().clone(), value.clone()))
            .collect();
        if !literals.is_empty() {
            projection =
                projection.try_map_exprs(|expr| replace_columns_with_literals(expr, &literals))?;
            predicate = predicate
                .map(|expr| replace_columns_with_literals(expr, &literals))
                .transpose()?;
        }
        let name = meta.object_meta.location.to_string();
        projection = rewrite_input_file_name_in_projection(projection, &name)?;

        let logical = Arc::clone(self.schema.file_schema());
        let adapter = self.adapters.create(logical, Arc::clone(&schema))?;
        let simplifier = PhysicalExprSimplifier::new(&schema);
        let adapt = |expr| simplifier.simplify(adapter.rewrite(expr)?);
        let projection = projection.try_map_exprs(adapt)?;
        let predicate = predicate.map(adapt).transpose()?;

        let mut conjuncts = Vec::new();
        let mut empty = false;
        for expr in predicate.iter().flat_map(split_conjunction) {
            match constant(expr) {
                Some(true) => {}
                Some(false) => empty = true,
                None => conjuncts.push(Conjunct::new(Arc::clone(expr))),
            }
        }
        if conjuncts.len() > CONJUNCTS_MAX {
            let rest = conjuncts.split_off(CONJUNCTS_MAX - 1);
            conjuncts.push(Conjunct::new(conjunction(rest.into_iter().map(|c| c.expr))));
        }
        let kept = schema.fields().iter();
        let kept = kept.map(|field| compact(field, file, refers));
        Ok(FilePlan {
            kept: kept.collect(),
            schema,
            conjuncts,
            projection: projection.iter().map(|p| Arc::clone(&p.expr)).collect(),
            empty,
        })
    }

    /// The file's columns as DataFusion's reader would decode them: as views where the table has
    /// views, INT96 as configured; but dictionaries with wide keys.
    fn physical_schema(&self, meta: &PartitionedFile, file: &TableFile) -> Result<SchemaRef> {
        let mut options = ArrowReaderOptions::new();
        if let Some(schema) = &meta.arrow_schema {
            options = options.with_schema(Arc::clone(schema));
        }
        let metadata = ArrowReaderMetadata::try_new(Arc::clone(file.metadata()), options)?;
        let roots = metadata.parquet_schema().root_schema().get_fields();
        let mut schema = with_intervals(metadata.schema(), roots);
        if let Some(coerced) = apply_file_schema_type_coercions(self.schema.file_schema(), &schema)
        {
            schema = Arc::new(coerced);
        }
        if let Some((unit, timezone)) = &self.int96
            && let Some(coerced) = Int96Coercer::new(metadata.parquet_schema(), &schema, unit)
                .with_timezone(timezone.clone())
                .coerce()
        {
            schema = Arc::new(coerced);
        }
        Ok(with_wide_keys(&schema))
    }
}

/// The schema with the type that intervals are decoded to.
fn with_intervals(schema: &SchemaRef, roots: &[TypePtr]) -> SchemaRef {
    if !roots.iter().any(|root| is_interval(root)) {
        return Arc::clone(schema);
    }
    let fields = schema.fields().iter().zip(roots).map(|(field, root)| {
        if is_interval(root) {
            Arc::new(Field::clone(field).with_data_type(INTERVAL))
        } else {
            Arc::clone(field)
        }
    });
    let fields: Vec<_> = fields.collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

impl Conjunct {
    fn new(expr: Arc<dyn PhysicalExpr>) -> Self {
        let dynamic = DynamicFilterTracking::classify(&expr).contains_dynamic_filter();
        Self { expr, dynamic }
    }
}

/// The value of a constant conjunct; NULL counts as false.
fn constant(expr: &Arc<dyn PhysicalExpr>) -> Option<bool> {
    let literal = expr.downcast_ref::<Literal>()?;
    match literal.value() {
        ScalarValue::Boolean(value) => Some(value.unwrap_or(false)),
        value if value.is_null() => Some(false),
        _ => None,
    }
}

/// The session's INT96 options, as DataFusion interprets them.
///
/// # Errors
/// `Configuration` if they cannot be understood.
pub(crate) fn int96(
    options: &datafusion::common::config::TableParquetOptions,
) -> Result<Option<(arrow::datatypes::TimeUnit, Option<Arc<str>>)>> {
    use arrow::datatypes::TimeUnit;
    let Some(unit) = &options.global.coerce_int96 else {
        return Ok(None);
    };
    let unit = match unit.to_ascii_lowercase().as_str() {
        "ns" => TimeUnit::Nanosecond,
        "us" => TimeUnit::Microsecond,
        "ms" => TimeUnit::Millisecond,
        "s" => TimeUnit::Second,
        _ => {
            return Err(DataFusionError::Configuration(format!(
                "datafusion.execution.parquet.coerce_int96 cannot be '{unit}'; it is ns, us, ms or s"
            )));
        }
    };
    Ok(Some((
        unit,
        options.global.coerce_int96_tz.as_deref().map(Arc::from),
    )))
}
