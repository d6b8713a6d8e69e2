package rest;

import jakarta.servlet.Filter;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.Map;
import org.apache.iceberg.Files;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.ee10.servlet.FilterHolder;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.http.UriCompliance;
import org.eclipse.jetty.server.HttpConfiguration;
import org.eclipse.jetty.server.HttpConnectionFactory;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

/**
 * Serves a REST catalog on a free port of the loopback, until its standard input ends.
 *
 * <p>{@code rest.Main WAREHOUSE [TOKEN]}: the tables, and a database with their names, are below the
 * directory WAREHOUSE. With a TOKEN every request without it is refused; the answer repeats
 * what was sent, as a careless server would. Prints the port.
 */
public final class Main {
  private Main() {}

  public static void main(String[] args) throws Exception {
    JdbcCatalog catalog = new JdbcCatalog();
    catalog.initialize(
        "tests",
        Map.of(
            "uri", "jdbc:h2:file:" + args[0] + "/catalog",
            "warehouse", "file:" + args[0],
            "io-impl", LocalFiles.class.getName()));
    ServletContextHandler context = new ServletContextHandler();
    context.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
    // the levels of a namespace are separated by %1F, in paths too
    context.getServletHandler().setDecodeAmbiguousURIs(true);
    if (args.length > 1) {
      context.addFilter(new FilterHolder(demanding(args[1])), "/*", null);
    }
    Server server = new Server();
    HttpConfiguration http = new HttpConfiguration();
    http.setUriCompliance(UriCompliance.UNSAFE);
    ServerConnector connector = new ServerConnector(server, new HttpConnectionFactory(http));
    connector.setHost("127.0.0.1");
    server.addConnector(connector);
    server.setHandler(context);
    server.start();
    System.out.println(connector.getLocalPort());
    while (System.in.read() >= 0) {}
    server.stop();
  }

  /** Local files, by paths and by URIs with and without an authority. */
  public static final class LocalFiles implements FileIO {
    @Override
    public InputFile newInputFile(String location) {
      return Files.localInput(path(location));
    }

    @Override
    public OutputFile newOutputFile(String location) {
      return Files.localOutput(path(location));
    }

    @Override
    public void deleteFile(String location) {
      try {
        java.nio.file.Files.delete(Path.of(path(location)));
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    }

    private static String path(String location) {
      return location.replaceFirst("^file:(//)?", "");
    }
  }

  private static Filter demanding(String token) {
    return (request, response, chain) -> {
      String sent = ((HttpServletRequest) request).getHeader("Authorization");
      if (("Bearer " + token).equals(sent)) {
        chain.doFilter(request, response);
        return;
      }
      HttpServletResponse refused = (HttpServletResponse) response;
      refused.setStatus(HttpServletResponse.SC_UNAUTHORIZED);
      refused.setContentType("application/json");
      refused
          .getWriter()
          .printf(
              "{\"error\": {\"message\": \"not allowed: %s\", \"type\": \"NotAuthorizedException\","
                  + " \"code\": 401}}",
              sent);
    };
  }
}
