// The behaviour that programs written against JDBC expect: DatabaseMetaData, types, arrays, fetching by rows, COPY out.
// Run with the server's port: java -cp postgresql.jar Metadata.java PORT

import java.io.ByteArrayOutputStream;
import java.math.BigDecimal;
import java.sql.Array;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.postgresql.PGConnection;

public class Metadata {
    static void check(boolean holds, Object shown) {
        if (!holds) throw new AssertionError(String.valueOf(shown));
    }

    /** The values of a column of all rows. */
    static List<String> column(ResultSet rows, String name) throws SQLException {
        List<String> values = new ArrayList<>();
        while (rows.next()) values.add(rows.getString(name));
        rows.close();
        return values;
    }

    static void metadata(Connection connection) throws SQLException {
        DatabaseMetaData data = connection.getMetaData();
        check(data.getDatabaseProductName().equals("PostgreSQL"), data.getDatabaseProductName());
        List<String> tables = column(data.getTables(null, "public", "%", new String[] {"TABLE"}), "TABLE_NAME");
        check(tables.containsAll(List.of("endless", "kinds", "people")), tables);
        List<String> views = column(data.getTables("datafusion", null, "gr%", new String[] {"VIEW"}), "TABLE_NAME");
        check(views.equals(List.of("grown")), views);
        check(column(data.getTables(null, null, "people", null), "TABLE_TYPE").equals(List.of("TABLE")), "all types");
        check(column(data.getSchemas(), "TABLE_SCHEM").contains("public"), "schemas");
        check(column(data.getCatalogs(), "TABLE_CAT").contains("datafusion"), "catalogs");
        check(column(data.getTableTypes(), "TABLE_TYPE").contains("TABLE"), "table types");

        ResultSet columns = data.getColumns(null, "public", "kinds", "%");
        List<String> shown = new ArrayList<>();
        while (columns.next()) {
            shown.add(columns.getString("COLUMN_NAME") + " " + columns.getInt("DATA_TYPE") + " "
                + columns.getString("TYPE_NAME") + " " + columns.getString("IS_NULLABLE") + " "
                + columns.getInt("ORDINAL_POSITION"));
        }
        check(shown.get(0).equals("k " + Types.INTEGER + " int4 NO 1"), shown);
        check(shown.get(6).equals("price " + Types.NUMERIC + " numeric YES 7"), shown);
        check(shown.get(13).equals("numbers " + Types.ARRAY + " _int4 YES 14"), shown);
        check(shown.size() == 16, shown);
        columns = data.getColumns(null, null, "kinds", "price");
        check(columns.next() && columns.getInt("COLUMN_SIZE") == 12 && columns.getInt("DECIMAL_DIGITS") == 2, "price");

        check(!data.getPrimaryKeys(null, "public", "people").next(), "no keys");
        check(!data.getIndexInfo(null, "public", "people", false, false).next(), "no indexes");
        check(!data.getImportedKeys(null, "public", "people").next(), "no imported keys");
        check(!data.getExportedKeys(null, "public", "people").next(), "no exported keys");
        check(!data.getCrossReference(null, null, "people", null, null, "kinds").next(), "no references");
        check(!data.getBestRowIdentifier(null, "public", "people", 0, true).next(), "no row identifier");
        check(data.getVersionColumns(null, "public", "people").next(), "ctid");
        List<String> types = column(data.getTypeInfo(), "TYPE_NAME");
        check(types.containsAll(List.of("int4", "text", "numeric", "_int4")), types);
        check(data.getProcedures(null, "public", "%") != null, "procedures");
        check(!column(data.getFunctions(null, "pg_catalog", "format_type"), "FUNCTION_NAME").isEmpty(), "functions");
        data.getFunctionColumns(null, "public", "%", "%").close();
        data.getProcedureColumns(null, "public", "%", "%").close();
        data.getTablePrivileges(null, "public", "people").close();
        data.getColumnPrivileges(null, "public", "people", "%").close();
        data.getUDTs(null, "public", "%", null).close();
        data.getClientInfoProperties().close();
        check(data.getSQLKeywords().length() > 100, data.getSQLKeywords());
        check(data.getMaxColumnNameLength() == 63, data.getMaxColumnNameLength());
    }

    static void queries(Connection connection) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement("SELECT * FROM kinds WHERE k = ?")) {
            // From the fifth execution on the driver uses a prepared statement and binary results.
            for (int i = 0; i < 7; i++) {
                statement.setInt(1, 1);
                try (ResultSet row = statement.executeQuery()) {
                    check(row.next(), "a row");
                    check(row.getBoolean("flag") && row.getLong("big") == 3 && row.getDouble("d") == 0.25, "numbers");
                    check(row.getBigDecimal("price").equals(new BigDecimal("12.50")), row.getBigDecimal("price"));
                    check(row.getDate("day").toString().equals("2024-02-29"), row.getDate("day"));
                    check(row.getTimestamp("at").toString().equals("2024-02-29 12:34:56.789"), row.getTimestamp("at"));
                    check(Arrays.equals(row.getBytes("raw"), new byte[] {'a', 'b'}), "raw");
                    Integer[] numbers = (Integer[]) row.getArray("numbers").getArray();
                    check(Arrays.equals(numbers, new Integer[] {1, null, 3}), Arrays.toString(numbers));
                    String[] words = (String[]) row.getArray("words").getArray();
                    check(Arrays.equals(words, new String[] {"a", "b c"}), Arrays.toString(words));
                }
            }
            ResultSetMetaData data = statement.getMetaData();
            check(data.getColumnCount() == 16 && data.getColumnName(1).equals("k"), data.getColumnName(1));
            check(data.getPrecision(7) == 12 && data.getScale(7) == 2, data.getScale(7));
            data.isAutoIncrement(1);
            data.isNullable(1);
        }
        try (PreparedStatement statement =
                connection.prepareStatement("SELECT id FROM people WHERE id = ANY(?) ORDER BY id")) {
            Array ids = connection.createArrayOf("int4", new Integer[] {1, 3});
            statement.setArray(1, ids);
            try (ResultSet rows = statement.executeQuery()) {
                check(column(rows, "id").equals(List.of("1", "3")), "any");
            }
        }
        try (Statement statement = connection.createStatement();
                ResultSet row = statement.executeQuery("SELECT 1, 1")) {
            check(row.next() && row.getInt(1) == 1 && row.getInt(2) == 1, "twice");
            check(row.getMetaData().getColumnName(2).equals("?column?"), row.getMetaData().getColumnName(2));
        }
    }

    static void fetching(Connection connection) throws SQLException {
        connection.setAutoCommit(false);
        try (Statement statement = connection.createStatement()) {
            statement.setFetchSize(100);
            long sum = 0;
            try (ResultSet rows = statement.executeQuery("SELECT value FROM generate_series(1, 5000) AS g(value)")) {
                while (rows.next()) sum += rows.getLong(1);
            }
            check(sum == 12502500, sum);
        }
        connection.commit();
        connection.setReadOnly(true);
        connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
        connection.setAutoCommit(true);
        check(connection.isValid(5), "valid");
        check(connection.getSchema().equals("public"), connection.getSchema());
    }

    static void copying(Connection connection) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        long rows = connection.unwrap(PGConnection.class).getCopyAPI()
            .copyOut("COPY (SELECT id, name FROM people ORDER BY id) TO STDOUT", out);
        check(rows == 3 && out.toString().equals("1\tAda\n2\tBarbara\n3\t\\N\n"), out);
    }

    interface Check {
        void run(Connection connection) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        String url = "jdbc:postgresql://127.0.0.1:" + arguments[0] + "/datafusion?user=tester";
        String[] names = {"metadata", "queries", "fetching", "copying"};
        Check[] checks = {Metadata::metadata, Metadata::queries, Metadata::fetching, Metadata::copying};
        for (int i = 0; i < checks.length; i++) {
            try (Connection connection = DriverManager.getConnection(url)) {
                checks[i].run(connection);
            }
            System.out.println(names[i] + ": ok");
        }
        System.out.println("done");
    }
}
