import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.catalina.startup.Tomcat;

/** Serves PVWS's war at /pvws on loopback: `ServeWar WAR PORT`. Tomcat 11 serves wars of Jakarta EE. */
public final class ServeWar {
    private ServeWar() {}

    public static void main(String[] arguments) throws Exception {
        Tomcat tomcat = new Tomcat();
        Path folder = Files.createTempDirectory("pvws");
        Files.createDirectories(folder.resolve("webapps"));
        tomcat.setBaseDir(folder.toString());
        tomcat.setPort(Integer.parseInt(arguments[1]));
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        tomcat.getHost().setAutoDeploy(false);
        tomcat.addWebapp("/pvws", Path.of(arguments[0]).toAbsolutePath().toString());
        tomcat.start();
        tomcat.getServer().await();
    }
}
