import com.cosylab.epics.caj.cas.CAJServerContext;
import com.cosylab.epics.caj.cas.util.DefaultServerImpl;
import com.cosylab.epics.caj.cas.util.MemoryProcessVariable;
import gov.aps.jca.cas.ServerContext;
import gov.aps.jca.dbr.DBR;
import gov.aps.jca.dbr.DBRType;
import gov.aps.jca.dbr.DBR_Double;
import gov.aps.jca.dbr.DBR_Enum;
import gov.aps.jca.dbr.DBR_Int;
import gov.aps.jca.dbr.DBR_String;
import java.util.HashMap;
import java.util.Map;
import java.util.Scanner;

/**
 * A Channel Access server of CAJ, in pure Java. Its argument is the prefix of its PVs, its ports are EPICS's variables'. Each
 * line of standard input, {@code NAME VALUE}, writes a PV. It prints "running" to standard error when it listens.
 */
public final class CaServer {
  private final DefaultServerImpl server = new DefaultServerImpl();
  private final Map<String, MemoryProcessVariable> pvs = new HashMap<>();
  private final String prefix;

  private CaServer(String prefix) {
    this.prefix = prefix;
    MemoryProcessVariable number = add("number", DBRType.DOUBLE, new double[] {1.5});
    number.setUnits("mA");
    number.setPrecision((short) 2);
    add("still", DBRType.INT, new int[] {7});
    add("text", DBRType.STRING, new String[] {"abc"});
    add("choice", DBRType.ENUM, new short[] {1}).setEnumLabels(new String[] {"Closed", "Open"});
    add("array", DBRType.DOUBLE, new double[] {1, 2, 3}).setPrecision((short) 1);
  }

  private MemoryProcessVariable add(String name, DBRType type, Object value) {
    MemoryProcessVariable pv = server.createMemoryProcessVariable(prefix + name, type, value);
    pvs.put(name, pv);
    return pv;
  }

  private static DBR value(DBRType type, String text) {
    if (type == DBRType.STRING) {
      return new DBR_String(text);
    }
    if (type == DBRType.ENUM) {
      return new DBR_Enum(new short[] {Short.parseShort(text)});
    }
    if (type == DBRType.INT) {
      return new DBR_Int(new int[] {Integer.parseInt(text)});
    }
    return new DBR_Double(new double[] {Double.parseDouble(text)});
  }

  private void serve() throws Exception {
    CAJServerContext context = new CAJServerContext();
    int port = Integer.parseInt(System.getenv("EPICS_CA_SERVER_PORT"));
    context.setTcpServerPort(port);
    context.setUdpServerPort(port);
    context.initialize(server);
    Thread thread = new Thread(() -> run(context));
    thread.setDaemon(true);
    thread.start();
    System.err.println("running");
    Scanner lines = new Scanner(System.in);
    while (lines.hasNextLine()) {
      String[] words = lines.nextLine().split(" ", 2);
      MemoryProcessVariable pv = pvs.get(words[0]);
      pv.write(value(pv.getType(), words[1].replace("\"", "")), null);
    }
  }

  private static void run(ServerContext context) {
    try {
      context.run(0);
    } catch (Exception error) {
      error.printStackTrace();
      System.exit(1);
    }
  }

  public static void main(String[] arguments) throws Exception {
    new CaServer(arguments[0]).serve();
  }
}
